"""Every invoker calls once, waits for the acceptance alone, and tells no secret when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import traceback
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from tests.support.function_server import Function, serving
from trace_platform.domain.errors import InvokeFailed
from trace_platform.domain.runtimes import Runtime
from trace_platform.drivers.http_invoker import HttpInvoker
from trace_platform.wire.task import Invocation, JobRef, TaskInput

pytestmark = pytest.mark.anyio

KEY = "hunter2"
PAYLOAD = Invocation(
    task_id=uuid4(),
    attempt=1,
    org_id=uuid4(),
    job=JobRef(dag_name="chain", name="score"),
    operator="udf",
    config={"name": "größer", "n": 2**62},
    inputs=[TaskInput(input_index=0, dataset_uuid=uuid4(), dataset_version=uuid4(), cursor=5)],
    outputs=[],
    timeout_seconds=300,
    heartbeat_timeout_seconds=60,
    log_uri="s3://trace-data/log",
    lease_token=uuid4(),
    lease_expires_at=datetime(2026, 1, 1, tzinfo=UTC),
    capability_token="token-of-the-attempt",
)


@pytest.fixture
def function() -> Iterator[Function]:
    with serving(Function()) as served:
        yield served


@pytest.fixture(params=[HttpInvoker])
async def invoker(request: pytest.FixtureRequest) -> AsyncIterator[HttpInvoker]:
    made = request.param(accept_s=20)
    yield made
    await made.close()


def runtime(function: Function, url: str | None = None) -> Runtime:
    return Runtime("lambda", "lambda", url=url or f"{function.url}?key={KEY}")


@pytest.mark.parametrize("status", [200, 202, 204])
async def test_any_2xx_accepts(invoker: HttpInvoker, function: Function, status: int) -> None:
    function.status = status
    await invoker.invoke(runtime(function), PAYLOAD)
    assert [Invocation.model_validate(call) for call in function.calls] == [PAYLOAD]
    ((path, headers),) = function.requests
    assert (path, headers["Content-Type"]) == (f"/invoke?key={KEY}", "application/json")


@pytest.mark.parametrize("status", [301, 307, 308, 400, 401, 404, 429, 500, 503])
async def test_any_other_answer_refuses_and_is_not_asked_again(
    invoker: HttpInvoker, function: Function, status: int
) -> None:
    function.status, function.answer = status, b'{"error": "token-of-the-attempt"}'
    with pytest.raises(InvokeFailed) as caught:
        await invoker.invoke(runtime(function), PAYLOAD)
    assert str(status) in caught.value.message
    assert (caught.value.code, caught.value.retryable) == ("invoke_failed", True)
    assert len(function.calls) == 1
    assert_no_secrets(caught.value)


async def test_a_redirect_is_not_followed(invoker: HttpInvoker, function: Function) -> None:
    with serving(Function()) as other:
        function.status, function.headers = 307, {"Location": other.url}
        with pytest.raises(InvokeFailed):
            await invoker.invoke(runtime(function), PAYLOAD)
        assert other.calls == []


async def test_a_function_that_does_not_accept_in_time_is_given_up(function: Function) -> None:
    invoker = HttpInvoker(accept_s=0.2)
    function.hangs = lambda call: True
    with pytest.raises(InvokeFailed) as caught:
        await invoker.invoke(runtime(function), PAYLOAD)
    assert "0.2 s" in caught.value.message
    assert_no_secrets(caught.value)
    await invoker.close()


async def test_a_function_that_answers_byte_by_byte_is_late_too() -> None:
    ended = asyncio.Event()

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()
        ended.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    invoker = HttpInvoker(accept_s=0.2)
    with pytest.raises(InvokeFailed):
        await invoker.invoke(Runtime("lambda", "lambda", url=f"http://127.0.0.1:{port}"), PAYLOAD)
    await asyncio.wait_for(ended.wait(), 20)
    await invoker.close()
    server.close()


async def test_an_endless_answer_is_not_read(invoker: HttpInvoker, function: Function) -> None:
    function.answer = b"x" * 50_000_000
    await invoker.invoke(runtime(function), PAYLOAD)
    await invoker.invoke(runtime(function), PAYLOAD)
    assert len(function.calls) == 2


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@127.0.0.1:{closed}/?key=hunter2",
        "http://no-such-host.invalid/?key=hunter2",
        "https://127.0.0.1:{open}/?key=hunter2",
        "http://[hunter2/",
        "http://127.0.0.1:99999999/?key=hunter2",
    ],
)
async def test_an_address_that_cannot_be_reached_is_not_shown(
    invoker: HttpInvoker, function: Function, url: str
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = url.replace("{closed}", str(unused.getsockname()[1])).replace(
            "{open}", function.url.split(":")[2].partition("/")[0]
        )
        with pytest.raises(InvokeFailed) as caught:
            await invoker.invoke(runtime(function, address), PAYLOAD)
    assert_no_secrets(caught.value)


async def test_a_runtime_without_a_function_says_what_is_missing(
    invoker: HttpInvoker, function: Function
) -> None:
    with pytest.raises(InvokeFailed) as caught:
        await invoker.invoke(replace(runtime(function), url=None), PAYLOAD)
    assert caught.value.hint == "set [runtimes.lambda] url"


async def test_no_proxy_of_the_machine_is_asked(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    invoker = HttpInvoker(accept_s=20)
    await invoker.invoke(runtime(function), PAYLOAD)
    await invoker.close()


async def test_calls_run_side_by_side(invoker: HttpInvoker, function: Function) -> None:
    function.hangs = lambda call: call["attempt"] == 1
    slow = asyncio.create_task(invoker.invoke(runtime(function), PAYLOAD))
    others = [
        invoker.invoke(runtime(function), PAYLOAD.model_copy(update={"attempt": n}))
        for n in range(2, 34)
    ]
    await asyncio.gather(*others)
    assert not slow.done()
    function.go_on.set()
    await slow


def assert_no_secrets(error: InvokeFailed) -> None:
    """Neither in what is stored nor in what a log of the traceback would show."""
    shown = f"{error.message} {error.hint} {error.facts}" + "".join(
        traceback.format_exception(error)
    )
    assert KEY not in shown
    assert PAYLOAD.capability_token not in shown
