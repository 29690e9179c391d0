"""What stands between a client and its server may answer anything: that is an outage, which every
loop outlives, and never a defect."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.corpus import corpus
from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.app.supervise.ready import mark_ready
from trace_platform.client import Client
from trace_platform.domain.errors import BadInput, StaleFence, TraceError, Unavailable
from trace_platform.drivers.lite.certificates import ensure_certificates
from trace_platform.drivers.query_endpoint import QueryEndpoint
from trace_platform.query.service.dispatcher_client import DispatcherClient as OfQuery
from trace_platform.rpc.key_claims import DispatcherClient as OfRpc
from trace_platform.scheduler.dispatcher_client import DispatcherClient as OfScheduler
from trace_platform.wire.refusal import DISPATCHER
from trace_platform.worker.dispatcher_client import DispatcherClient as OfWorker

ODD = {
    "empty": b"",
    "html": b"<html><body>Bad Gateway</body></html>",
    "list": b"[]",
    "null": b"null",
    "text": b'"try later"',
    "no-code": b'{"message": "Not Found"}',
    "cut": b'{"code": "stale_fe',
    "deep": b"[" * 100_000,
    "not-text": b"\xff\xfe\x00\xd8",
}


class OddServer(ThreadingHTTPServer):
    """Answers every request with the same bytes."""

    daemon_threads = True
    status, body = 502, b""

    def __init__(self, home: Home) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.home = home
        files = ensure_certificates(home.tls)
        self.ca, context = files.ca, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.server, files.key)
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://localhost:{self.server_port}"
        ports = dict.fromkeys(("dispatcher", "query"), self.server_port)
        home.instance_file.write_text(json.dumps({"ports": ports}))
        home.secret("user_token")
        for process in ports:
            mark_ready(home, process)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OddServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.server.status)
        # It says so, whatever it is.
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_DELETE = do_POST

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OddServer]:
    server = OddServer(Home(tmp_path_factory.mktemp("home")))
    yield server
    server.shutdown()
    server.server_close()


def worker(odd: OddServer) -> None:
    client = OfWorker(odd.url, "t", odd.ca)
    try:
        client.claim("ecs_platform", "w", 1)
    finally:
        client.close()


def scheduler(odd: OddServer) -> None:
    client = OfScheduler(odd.url, "t", odd.ca)
    try:
        client.schedules()
    finally:
        client.close()


def _closed(client: Any, ask: Callable[[], Any]) -> None:
    async def run() -> None:
        try:
            await ask()
        finally:
            await client.close()

    asyncio.run(run())


def rpc(odd: OddServer) -> None:
    client = OfRpc(odd.url, "t", odd.ca)
    _closed(client, lambda: client.claim("h", ["key"], 1.0))


def query(odd: OddServer) -> None:
    client = OfQuery(odd.url, "t", odd.ca, patience_s=0.0)
    _closed(client, client.datasets)


def attempt(odd: OddServer) -> None:
    with QueryEndpoint(odd.url, "t", Path(odd.ca).read_text()).stream("select 1", "csv", 10.0):
        pass


def command(odd: OddServer) -> None:
    control_client.health(odd.home)


def user(odd: OddServer) -> None:
    client = Client.local(odd.home.root)
    try:
        client.query("select 1")
    finally:
        client.close()


CLIENTS = (worker, scheduler, rpc, query, attempt, command, user)


@corpus("status", [200, 404, 500, 502])
@corpus("body", ODD.values(), ids=ODD)
@corpus("ask", CLIENTS)
def test_an_answer_of_nobodys_is_an_outage(
    odd: OddServer, ask: Callable[[OddServer], None], body: bytes, status: int
) -> None:
    odd.status, odd.body = status, body
    with pytest.raises(Unavailable):
        ask(odd)


@corpus("ask", CLIENTS)
def test_a_named_refusal_is_raised_by_its_name(
    odd: OddServer, ask: Callable[[OddServer], None]
) -> None:
    odd.status = 422
    odd.body = b'{"code": "bad_input", "detail": "no", "hint": "yes", "facts": {"n": 1}}'
    with pytest.raises(BadInput) as caught:
        ask(odd)
    error = caught.value
    assert (error.message, error.hint, error.facts) == ("no", "yes", {"n": 1})


@pytest.mark.parametrize("facts", [[], "x", None, {"self": 1, "hint": 2, "message": 3}])
def test_odd_facts_do_not_hide_the_name(facts: object) -> None:
    problem = {"code": "stale_fence", "detail": ["late"], "hint": 7, "facts": facts}
    error = DISPATCHER.error(409, json.dumps(problem).encode())
    assert isinstance(error, StaleFence)
    assert (error.message, error.hint, error.facts) == ("['late']", "7", {})


def test_an_unknown_code_is_what_the_status_says() -> None:
    assert type(DISPATCHER.error(503, b'{"code": "of tomorrow"}')) is Unavailable
    assert type(DISPATCHER.error(409, b'{"code": "of tomorrow"}')) is TraceError


def test_a_dispatcher_that_says_nothing_is_told_by_what_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def silent(*_: Any, **__: Any) -> httpx.Response:
        raise httpx.ReadTimeout("")

    async def scenario() -> None:
        client = OfQuery("http://127.0.0.1:1", "t", patience_s=0)
        monkeypatch.setattr(client._calls._http, "request", silent)
        try:
            with pytest.raises(Unavailable, match="does not answer: ReadTimeout"):
                await client.datasets()
        finally:
            await client.close()

    asyncio.run(scenario())
