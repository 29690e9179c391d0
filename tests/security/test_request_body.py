"""What a stranger's body costs: nobody reads it, and nobody waits for it.

The Dispatcher, the query service and the RPC egress as processes of their own, over TLS.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.conftest import StateDsns
from tests.security.test_request_head import LINE, connected
from tests.support.engine_stack import Engine
from tests.support.query_service import query_service
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import load_settings
from trace_platform.app.supervise.ready import is_ready
from trace_platform.drivers import bounded_request
from trace_platform.drivers.bounded_request import BODY_S, MAX_BODY_BYTES, MAX_HEAD_BYTES
from trace_platform.drivers.https import MAX_CONTAINERS

MIB = 1 << 20
# Less than a body has. A machine that is busy with something else needs some of it.
AT_ONCE_S = BODY_S - 5
LARGE = 31 * MIB
# Whatever is sent, for buffers of the machine's own.
ROOM = 24 * MIB
OPEN = {("GET", "/healthz"), ("GET", "/internal/jwks/task"), ("GET", "/openapi.json")}


@dataclass
class Service:
    """One that runs, and what opens a route of it that takes a body."""

    name: str
    url: str
    ca: Path
    pid: int
    path: str
    headers: dict[str, str] = field(repr=False)

    def connect(self) -> ssl.SSLSocket:
        at = urlsplit(self.url)
        tls = ssl.create_default_context(cafile=str(self.ca))
        plain = socket.create_connection((at.hostname, at.port), timeout=AT_ONCE_S)
        return tls.wrap_socket(plain, server_hostname=at.hostname)

    def http(self) -> httpx.Client:
        tls = ssl.create_default_context(cafile=str(self.ca))
        return httpx.Client(base_url=self.url, verify=tls, timeout=90, trust_env=False)

    def post(self, content: bytes) -> httpx.Response:
        """Of somebody who may."""
        kind = {"Content-Type": "application/json"}
        with self.http() as http:
            return http.post(self.path, content=content, headers=self.headers | kind)

    def routes(self) -> list[tuple[str, str]]:
        """All that it has, by every method, and some that it does not have."""
        with self.http() as http:
            paths = http.get("/openapi.json").json()["paths"]
        known = [path.replace("{", "").replace("}", "") for path in paths]
        known += ["/openapi.json", "/pools/main", "/pools/other", "/nowhere"]
        return [(method, path) for path in known for method in ("GET", "POST", "PUT", "DELETE")]

    def resident(self) -> int:
        return psutil.Process(self.pid).memory_info().rss


@contextmanager
def served(command: list[str], log: Path, is_up: Callable[[int], bool]) -> Iterator[int]:
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while not is_up(process.pid):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@pytest.fixture(scope="module")
def services(
    tmp_path_factory: pytest.TempPathFactory, module_state_dsns: StateDsns
) -> Iterator[dict[str, Service]]:
    folder = tmp_path_factory.mktemp("services")
    with ExitStack() as running:
        engine = Engine(folder / "engine", module_state_dsns)
        running.callback(engine.close)
        dispatcher = engine.dispatcher()
        config = (
            '[query]\nconcurrency = 1\nmemory_mb = 256\n[rpc_pools]\nmain = "http://127.0.0.1:9"\n'
        )
        query = running.enter_context(query_service(folder / "query", config))
        home = query.home
        rpc_pid = running.enter_context(_rpc(home))
        dispatcher.await_ready()
        user = {"Authorization": f"Bearer {home.secret('user_token')}"}
        worker = {"X-Trace-Worker-Token": home.secret("worker_token")}
        rpc_url = open_instance(home, load_settings(home)).url("rpc")
        yield {
            each.name: each
            for each in (
                Service(
                    "dispatcher",
                    f"https://localhost:{dispatcher.port}",
                    engine.tls.ca,
                    dispatcher.pid,
                    "/internal/task-claim",
                    {"X-Trace-Worker-Token": engine.worker_token},
                ),
                Service("query", query.url, home.tls / "ca.pem", query.pid, "/v1/query", user),
                Service("rpc", rpc_url, home.tls / "ca.pem", rpc_pid, "/pools/main", worker),
            )
        }


def _rpc(home: Home) -> AbstractContextManager[int]:
    command = [sys.executable, "-m", "trace_platform.cli", "serve", "rpc", "--home", str(home.root)]
    return served(command, home.logs / "rpc.jsonl", lambda pid: is_ready(home, "rpc", pid))


@pytest.fixture(params=["dispatcher", "query", "rpc"])
def service(request: pytest.FixtureRequest, services: dict[str, Service]) -> Service:
    return services[request.param]


def head(method: str, path: str, size: int, headers: dict[str, str] | None = None) -> bytes:
    given = {"Host": "here", "Content-Type": "application/json", "Content-Length": str(size)}
    lines = [f"{name}: {value}" for name, value in (given | (headers or {})).items()]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer[:100]
    return int(answer[9:12])


def until_closed(connection: ssl.SSLSocket) -> bytes:
    """What else it says before it hangs up."""
    said = b""
    with suppress(ConnectionError, ssl.SSLEOFError):
        while part := connection.recv(65_536):
            said += part
    return said


def test_every_route_answers_a_stranger_without_its_body(service: Service) -> None:
    """A mebibyte is announced and ten bytes are sent."""
    with ExitStack() as opened:
        asked = {}
        for method, path in service.routes():
            connection = opened.enter_context(service.connect())
            connection.sendall(head(method, path, MIB) + b"[" * 10)
            asked[method, path] = connection
        for route, connection in asked.items():
            expected = {200} if route in OPEN else {401, 404, 405}
            found = status(connection.recv(65_536))
            assert found in expected | {404, 405}, (route, found)
            until_closed(connection)  # or else it times out


def test_bodies_that_nobody_may_send_take_no_memory(service: Service) -> None:
    stranger = {"Authorization": "Bearer made-up", "X-Trace-Worker-Token": "made-up"}
    before, answers = service.resident(), []
    for number in range(20):
        with service.connect() as connection:
            given = stranger if number % 2 else {}
            connection.sendall(head("POST", service.path, LARGE, given))
            answers.append(status(connection.recv(65_536)))
            with suppress(OSError):
                for _ in range(LARGE // MIB):
                    connection.sendall(b"[" * MIB)
        assert service.resident() < before + ROOM
    assert answers == [413 if service.name == "query" else 401] * 20


def test_a_wrong_token_does_not_cost_the_connection(service: Service) -> None:
    """Whoever sends all of a body before it listens sees the answer, and may go on."""
    at, tls = urlsplit(service.url), ssl.create_default_context(cafile=str(service.ca))
    connection = HTTPSConnection(at.hostname or "", at.port, timeout=AT_ONCE_S, context=tls)
    with closing(connection):
        connection.connect()
        first = connection.sock
        for _ in range(3):
            connection.request("POST", service.path, b" " * 100_000)
            answer = connection.getresponse()
            assert answer.status == 401
            assert b"unauthenticated" in answer.read()
            assert connection.sock is first


def test_deep_and_crowded_bodies_are_refused_for_hardly_more_than_their_bytes(
    service: Service,
) -> None:
    before = service.resident()
    # What a service may take: the query service takes no more than a long statement.
    size = 2 * MIB if service.name == "query" else 15 * MIB
    for content in (
        b"[" * size,
        b'{"a":' * (size // 5),
        b"[" + b"[]," * (size // 3 - 2) + b"[]]",
        b"[" * (MAX_CONTAINERS + 1),
    ):
        answer = service.post(content[:size])
        assert answer.status_code in (400, 422)
        assert answer.json()["code"] == "bad_input"
        # Some of what the query service takes is too deep, or no statement.
        assert "lists and objects" in answer.json()["detail"] or service.name == "query"
    assert service.resident() < before + 3 * size + ROOM


@pytest.mark.parametrize("service", ["dispatcher", "query"], indirect=True)
def test_a_body_that_is_too_deep_to_be_read_is_bad_input(service: Service) -> None:
    for content in (b"[" * 100_000 + b"]" * 100_000, b'{"sql":' * 2_000 + b"1" + b"}" * 2_000):
        answer = service.post(content)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")


@dataclass
class Unfinished:
    """What was said to somebody who sends a part of a body, and then nothing more."""

    who: str
    status: int
    then: bytes
    after_s: float


@pytest.fixture(scope="module", autouse=True)
def unfinished(services: dict[str, Service]) -> Iterator[Future[list[Unfinished]]]:
    """They wait while the other tests run. Of those who may send a body; and of a webhook, where
    only the body tells who may."""
    with ThreadPoolExecutor() as pool:
        yield pool.submit(_wait_unfinished, services)


def _wait_unfinished(services: dict[str, Service]) -> list[Unfinished]:
    dispatcher = services["dispatcher"]
    asked = [(each, each.path, each.headers) for each in services.values()]
    signed = {
        "webhook-id": "1",
        "webhook-timestamp": str(int(time.time())),
        "webhook-signature": "v1,AAAA",
    }
    asked.append((dispatcher, "/v1/hooks/chain/hook", signed))
    with ExitStack() as opened:
        waiting = []
        for each, path, headers in asked:
            connection = opened.enter_context(each.connect())
            connection.settimeout(4 * BODY_S)
            connection.sendall(head("POST", path, MIB, headers) + b'{"sql": ')
            waiting.append(connection)
        began = time.monotonic()
        return [
            Unfinished(
                each.name,
                status(connection.recv(65_536)),
                until_closed(connection),
                time.monotonic() - began,
            )
            for (each, *_), connection in zip(asked, waiting, strict=True)
        ]


@pytest.mark.anyio
async def test_dripping_bytes_do_not_buy_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_request, "BODY_S", 0.3)
    async with connected() as client:
        await client.says(LINE + b"content-length: 1000000\r\n\r\n")
        answer = b""
        while not answer:
            await client.says(b"x")
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    answer = await client.reader.read(12)
        assert answer == b"HTTP/1.1 408"


@pytest.mark.anyio
async def test_a_body_that_arrives_at_the_least_rate_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_request, "BODY_S", 0.1)
    monkeypatch.setattr(bounded_request, "BODY_BYTES_PER_S", 10_000)
    async with connected() as client:
        await client.says(LINE + b"content-length: 100001\r\n\r\n", b"x" * 100_000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.reader.read(1)
        await client.says(b"x")
        assert b"100001 bytes" in await client.reader.readuntil(b" bytes")


@pytest.mark.anyio
@pytest.mark.parametrize("piece", [b"n: v\r\n", b"aaaaaa"], ids=["many", "long"])
async def test_fields_behind_a_body_are_bounded_like_those_before_it(piece: bytes) -> None:
    async with connected() as client:
        await client.says(LINE + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx: y")
        await client.says(b"\r\n" if piece.endswith(b"\n") else b"", piece * 1_000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.reader.read(1)
        await client.says(piece * (MAX_HEAD_BYTES // 6 + 1))
        assert (await client.reader.read()).startswith(b"HTTP/1.1 431 ")


def test_the_limits_leave_room_for_the_largest_completion() -> None:
    assert MAX_BODY_BYTES == 32 * MIB
    assert MAX_CONTAINERS >= 2 * 100_000


def test_a_body_that_does_not_arrive_is_not_waited_for(
    unfinished: Future[list[Unfinished]],
) -> None:
    said = unfinished.result()
    assert [(each.status, each.then) for each in said] == [(408, b"")] * 4
    assert max(each.after_s for each in said) < 3 * BODY_S
