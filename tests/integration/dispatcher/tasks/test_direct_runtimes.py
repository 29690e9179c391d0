"""Functions that the Dispatcher calls: what they get, and what happens when they do not answer."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest
import structlog
import uvicorn

from tests.support.control_plane import ControlPlane
from tests.support.driven import Driven, with_lambda
from tests.support.function_server import Function, serving
from trace_platform.dispatcher.api.create_app import create_app
from trace_platform.dispatcher.loops import repeat
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.run_direct import run_direct
from trace_platform.dispatcher.tasks.task_tokens import refuse_others
from trace_platform.domain.fence import Fence
from trace_platform.domain.runtimes import Runtime, Runtimes
from trace_platform.drivers.http_invoker import HttpInvoker
from trace_platform.wire.task import Invocation

pytestmark = pytest.mark.anyio

Eventually = Callable[..., None]

LAMBDA_DAG = """\
name: fan
jobs:
  - { name: a, activation: source, source: { kind: manual } }
  - name: score
    activation: reactive
    runtime: lambda
    operator: anything
    inputs: [{ from: { job: a } }]
    config: { model: small }
"""


def job(name: str, **fields: str) -> str:
    """Another job like `score`."""
    like = LAMBDA_DAG.partition("  - name: score\n")[2]
    for field, value in fields.items():
        like = re.sub(rf"    {field}: .*\n", "", like) + f"    {field}: {value}\n"
    return f"  - name: {name}\n{like}"


@pytest.fixture
def function() -> Iterator[Function]:
    with serving(Function()) as served:
        yield served


@pytest.fixture
async def calling(plane: ControlPlane, function: Function) -> AsyncIterator[Driven]:
    """With `lambda` behind a real URL that holds a key."""
    invoker = HttpInvoker(accept_s=20)
    yield Driven(plane, with_lambda(f"{function.url}?key=hunter2"), invoker)
    await invoker.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They are the test run's."""
        yield

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}"


@asynccontextmanager
async def api_of(plane: ControlPlane) -> AsyncIterator[str]:
    """The Dispatcher's API at a URL, for functions to report to; its loops are run by hand."""
    server = _Server(uvicorn.Config(create_app(plane.dispatcher), port=0, log_config=None))
    running = asyncio.create_task(server.serve())
    await server.ready.wait()
    yield server.url
    server.should_exit = True
    await running


def fence(call: dict[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("task_id", "attempt", "lease_token")}


def report(url: str, call: dict[str, Any], verb: str, **fields: Any) -> httpx.Response:
    """As a function does: with nothing but what it was called with."""
    return httpx.post(
        f"{url}/v1/task/{verb}",
        json=fence(call) | fields,
        headers={"X-Trace-Task-Capability": call["capability_token"]},
        trust_env=False,
        timeout=60,
    )


async def complete(url: str, call: dict[str, Any], **fields: Any) -> int:
    fields = {"status": "Completed"} | fields
    response = await asyncio.to_thread(report, url, call, "complete", **fields)
    return response.status_code


async def test_a_function_gets_all_that_it_needs(calling: Driven, function: Function) -> None:
    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", (0, 9))
    await calling.settle()
    (call,) = function.calls
    (task,) = calling.tasks("score")
    assert (task["status"], task["worker_id"]) == ("Running", "lambda")
    assert call["task_id"] == str(task["id"])
    assert call["attempt"] == task["attempt"] == 1
    assert call["lease_token"] == str(task["lease_token"])
    assert datetime.fromisoformat(call["lease_expires_at"]) == task["lease_expires_at"]
    assert task["lease_expires_at"] > datetime.now(UTC)
    own = Fence(task["id"], 1, task["lease_token"])
    claims = calling.plane.dispatcher.grants.tokens.read(call["capability_token"])
    refuse_others(claims, own)
    assert claims.write_prefixes == [output["prefix"] for output in call["outputs"]]
    assert call["bundle_url"] is None
    assert call["job"] == {"dag_name": "fan", "name": "score"}
    assert call["operator"] == "anything"
    assert call["config"] == {"model": "small"}
    (given,) = call["inputs"]
    (source,) = calling.plane.sql("SELECT * FROM datasets WHERE job_name = 'a'")
    assert given == {
        "input_index": 0,
        "dataset_uuid": str(source["uuid"]),
        "dataset_version": str(source["current_version"]),
        "cursor": None,
        "partition_key": "0-9",
        "start": 0,
        "end": 9,
        "files": [],
        "where": None,
        "invalidation": None,
        "table": False,
        "trigger": True,
        "whole": False,
        "columns_of": None,
        "names": [],
    }
    # Nothing of the contract is missing, and what is more is ours.
    contract = {
        "task_id", "attempt", "lease_token", "lease_expires_at", "capability_token", "bundle_url",
        "job", "operator", "config", "inputs",
    }  # fmt: skip
    assert set(call) - contract == {
        "org_id", "outputs", "timeout_seconds", "heartbeat_timeout_seconds", "log_uri", "checks",
        "abis",
    }  # fmt: skip


async def test_a_function_beats_emits_and_completes_by_itself(
    calling: Driven, function: Function
) -> None:
    answers: list[tuple[int, Any]] = []
    ended = threading.Event()
    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", 5)
    async with api_of(calling.plane) as url:

        def work(call: dict[str, Any]) -> None:
            output = {k: call["outputs"][0][k] for k in ("dataset_uuid", "dataset_version")}
            for verb, fields in (
                ("heartbeat", {"progress": {"done": 1, "total": 2}}),
                ("events", {"events": [output | {"cursor": 1}]}),
                ("complete", {"status": "Completed", "events": [output | {"cursor": 2}]}),
            ):
                response = report(url, call, verb, **fields)
                answers.append((response.status_code, response.json()))
            ended.set()

        function.work = work
        await calling.settle()
        assert await asyncio.to_thread(ended.wait, 20)
    assert [status for status, _ in answers] == [200, 200, 200], answers
    assert answers[0][1]["directive"] == "continue"
    assert calling.statuses("score") == ["Completed"]
    assert calling.events("score") == ["1", "2"]
    assert calling.plane.sql("SELECT * FROM outbox WHERE kind <> 'route'") == []


@pytest.mark.parametrize("status", [500, 404, 307])
async def test_a_function_that_refuses_costs_an_attempt_and_is_called_again(
    calling: Driven, function: Function, status: int
) -> None:
    function.status, function.headers = status, {"Location": "http://127.0.0.1:9/"}
    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", 5)
    with structlog.testing.capture_logs() as lines:
        await calling.settle()
    (task,) = calling.tasks("score")
    assert (task["status"], task["error_code"]) == ("Failed", "invoke_failed")
    assert task["next_retry_at"] is not None
    assert str(status) in task["error_message"]
    shown = json.dumps([task["error_message"], lines], default=str)
    assert "hunter2" not in shown
    assert "invoke?" not in shown
    function.status = 202
    await calling.retry_now()
    await calling.settle()
    assert [call["attempt"] for call in function.calls] == [1, 2]
    assert calling.statuses("score") == ["Running"]


async def test_a_function_that_hangs_holds_up_nobody(
    calling: Driven, function: Function, eventually: Eventually
) -> None:
    """Neither other calls of its runtime, nor other runtimes, nor the next announcements."""
    with serving(Function()) as other:
        calling.runtimes = with_lambda(function.url, lambda_b=other.url)
        calling.invoker = invoker = HttpInvoker(accept_s=20)
        function.hangs = lambda call: call["inputs"][0]["cursor"] == 0
        await calling.deploy(LAMBDA_DAG + job("other", runtime="lambda_b"))
        direct = calling.direct()
        running = asyncio.create_task(repeat("run_direct", lambda: run_direct(direct), 0.01))
        both = function.calls, other.calls
        for cursor in range(4):
            await calling.emit("a", cursor)
            await calling.plane.settle()
            called = partial(lambda n: [*map(len, both)] == [n, n], cursor + 1)
            await asyncio.to_thread(eventually, called)
        assert not function.go_on.is_set()
        running.cancel()
        await asyncio.wait([running])
        function.go_on.set()
        await direct.calls.finish()
        await invoker.close()
    assert calling.statuses("score") == ["Running"] * 4


async def test_what_is_urgent_is_called_first(calling: Driven, function: Function) -> None:
    await calling.deploy(LAMBDA_DAG + job("urgent", priority="high"))
    await calling.emit("a", *range(5))
    await calling.settle(calling.direct(at_once=2))
    order = [call["job"]["name"] for call in function.calls]
    assert order[:4] == ["urgent"] * 4
    assert sorted(order) == ["score"] * 5 + ["urgent"] * 5


async def test_a_function_that_is_too_slow_to_accept_is_given_up(
    calling: Driven, function: Function
) -> None:
    calling.invoker = HttpInvoker(accept_s=1)
    function.hangs = lambda call: call["attempt"] == 1
    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", 5)
    await calling.settle()
    (task,) = calling.tasks("score")
    assert (task["status"], task["error_code"]) == ("Failed", "invoke_failed")
    assert "did not accept within 1 s" in task["error_message"]
    await calling.invoker.close()
    calling.invoker = HttpInvoker(accept_s=20)
    await calling.retry_now()
    await calling.settle()
    assert calling.statuses("score") == ["Running"]
    async with api_of(calling.plane) as url:
        # The first call did reach it. What it does now is an attempt's that is over.
        assert await complete(url, function.calls[0]) == 409
        assert await complete(url, function.calls[1]) == 200
    await calling.invoker.close()


async def test_a_function_that_reports_before_it_fails_to_answer_keeps_its_result(
    calling: Driven, function: Function
) -> None:
    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", 5)
    async with api_of(calling.plane) as url:
        function.status = 500
        function.hangs = lambda call: report(url, call, "complete", status="Completed").is_error
        await calling.settle()
    assert calling.statuses("score") == ["Completed"]
    assert calling.plane.sql("SELECT * FROM outbox WHERE kind = 'enqueue'") == []


async def test_a_crash_between_claim_and_call_is_repaired_by_the_lease(
    calling: Driven, function: Function
) -> None:
    reached = asyncio.Event()

    class Dies:
        async def invoke(self, runtime: Runtime, payload: Invocation) -> None:
            reached.set()
            await asyncio.Event().wait()

    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", 5)
    await calling.plane.settle()
    dying = replace(calling, invoker=Dies()).direct(grace_s=0)
    await run_direct(dying)
    await asyncio.wait_for(reached.wait(), 20)
    await dying.calls.close()
    assert calling.statuses("score") == ["Running"]
    assert await calling.lose_leases() == 1
    await calling.settle()
    assert [call["attempt"] for call in function.calls] == [2]
    # The announcement of the first attempt is still owed, and refused.
    calling.plane.sql("UPDATE outbox SET available_at = clock_timestamp()")
    await calling.settle()
    assert len(function.calls) == 1
    assert calling.plane.sql("SELECT * FROM outbox") == []


async def test_a_stop_lets_calls_end_and_starts_no_others(
    calling: Driven, function: Function, eventually: Eventually
) -> None:
    function.hangs = lambda call: True
    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", *range(5))
    await calling.plane.settle()
    direct = calling.direct(at_once=2, grace_s=20)
    await run_direct(direct)
    await asyncio.to_thread(eventually, lambda: len(function.calls) == 2)
    closing = asyncio.create_task(direct.calls.close())
    await asyncio.sleep(0)
    function.go_on.set()
    await closing
    assert len(function.calls) == 2
    assert sorted(calling.statuses("score")) == ["Queued"] * 3 + ["Running"] * 2
    # What it did not start is still owed.
    calling.plane.sql("UPDATE outbox SET available_at = clock_timestamp()")
    await calling.settle()
    assert calling.statuses("score") == ["Running"] * 5


async def test_only_so_many_functions_run_at_once_and_one_that_ends_makes_room(
    calling: Driven, function: Function
) -> None:
    limited = LAMBDA_DAG.replace("config:", "scaling: { max_concurrency: 2 }\n    config:")
    await calling.deploy(limited)
    await calling.emit("a", *range(5))
    async with api_of(calling.plane) as url:
        await calling.settle()
        assert len(function.calls) == 2
        for done in range(5):
            assert await complete(url, function.calls[done]) == 200
            await calling.settle()
            assert len(function.calls) == min(5, 3 + done)
            assert calling.statuses("score").count("Running") == min(2, 4 - done)
    assert calling.statuses("score") == ["Completed"] * 5


async def test_a_refused_call_makes_room_too(calling: Driven, function: Function) -> None:
    limited = LAMBDA_DAG.replace("config:", "scaling: { mode: steady }\n    config:")
    await calling.deploy(limited)
    function.status = 503
    await calling.emit("a", 1, 2, 3)
    await calling.settle()
    assert len({call["task_id"] for call in function.calls}) == 3
    assert calling.statuses("score") == ["Failed"] * 3


async def test_two_dispatchers_call_once(calling: Driven, function: Function) -> None:
    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", *range(20))
    await calling.plane.settle()
    # Every task is announced three times.
    calling.plane.sql(
        "INSERT INTO outbox (kind, payload) SELECT kind, payload FROM outbox, generate_series(1, 2)"
    )
    both = [calling.direct(), calling.direct()]
    await asyncio.gather(*(run_direct(direct, limit=2) for direct in both))
    await asyncio.gather(*(calling.settle(direct) for direct in both))
    called = [call["task_id"] for call in function.calls]
    assert len(called) == len(set(called)) == 20
    assert [call["attempt"] for call in function.calls] == [1] * 20
    assert calling.plane.sql("SELECT * FROM outbox") == []


async def test_a_runtime_with_enough_to_do_is_left_in_the_outbox(
    calling: Driven, function: Function, eventually: Eventually
) -> None:
    function.hangs = lambda call: True
    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", *range(4))
    await calling.plane.settle()
    idle = asyncio.Event()
    direct = calling.direct(at_once=2, idle=idle.set)
    assert await run_direct(direct) == 1
    await asyncio.to_thread(eventually, lambda: len(function.calls) == 2)
    await calling.emit("a", 4)
    await calling.plane.settle()
    assert await run_direct(direct) == 0
    assert not idle.is_set()
    assert sorted(calling.statuses("score")) == ["Queued"] * 3 + ["Running"] * 2
    function.go_on.set()
    await idle.wait()
    await calling.settle(direct)
    assert len(function.calls) == 5
    assert calling.statuses("score") == ["Running"] * 5


async def test_a_paused_job_is_not_called_and_nothing_is_lost(
    calling: Driven, function: Function
) -> None:
    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", 5)
    calling.plane.sql(
        "INSERT INTO job_holds (org_id, dag_name, job_name, cause, from_rank, reason)"
        " VALUES (%s, 'fan', 'score', 'user', 0, 'a test')",
        calling.plane.dispatcher.org_id,
    )
    await calling.settle()
    assert (function.calls, calling.statuses("score")) == ([], ["Queued"])
    calling.plane.sql("DELETE FROM job_holds")
    calling.plane.sql("UPDATE tasks SET announce_again_at = clock_timestamp()")
    await requeue_failed(calling.plane.dispatcher.state)
    await calling.settle()
    assert len(function.calls) == 1


@pytest.mark.parametrize(
    "gone",
    [
        [],
        [Runtime("lambda", "lambda")],
        [Runtime("lambda", "lambda", url="http://127.0.0.1:9", enabled=False)],
        [Runtime("lambda", "queue")],
    ],
)
async def test_a_runtime_that_nobody_runs_keeps_its_tasks_waiting(
    calling: Driven, function: Function, gone: list[Runtime]
) -> None:
    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", 5)
    await calling.plane.settle()
    assert await run_direct(replace(calling, runtimes=Runtimes(gone)).direct()) == 1
    (task,) = calling.tasks("score")
    assert (task["status"], task["attempt"]) == ("Queued", 0)
    assert await run_direct(calling.direct()) == 0
    calling.plane.sql("UPDATE tasks SET announce_again_at = clock_timestamp()")
    await requeue_failed(calling.plane.dispatcher.state)
    await calling.settle()
    assert len(function.calls) == 1


async def test_a_driver_that_breaks_its_promise_shows_nothing_either(calling: Driven) -> None:
    class Breaks:
        async def invoke(self, runtime: Runtime, payload: Invocation) -> None:
            raise RuntimeError(f"{runtime.url} {payload.capability_token}")

    await calling.deploy(LAMBDA_DAG)
    await calling.emit("a", 5)
    await replace(calling, invoker=Breaks()).settle()
    (task,) = calling.tasks("score")
    assert (task["status"], task["error_code"]) == ("Failed", "invoke_failed")
    assert task["error_message"] == "calling runtime lambda: RuntimeError"
