"""The gateway served from a thread over plain HTTP, and behind it one service over TLS that writes
down what reaches it: whatever is not there was stopped at the door."""

from __future__ import annotations

import asyncio
import json
import queue
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import uvicorn

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.login_sessions import LoginSessions
from trace_platform.app.instance.query_users import QueryUsers
from trace_platform.drivers.bounded_request import BoundedRequest
from trace_platform.drivers.https import Listen
from trace_platform.drivers.lite.certificates import ensure_certificates
from trace_platform.gateway.serve import Allowance, Behind, Gateway

OWNER_TOKEN = "token-of-the-owner"
SERVICE_TOKEN = "token-of-the-services"
# Ends the stream of changes.
CUT = None


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request as the service behind saw it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Answer:
    """What the service says to the next request, and to all after it."""

    status: int = 200
    headers: list[tuple[str, str]] = field(
        default_factory=lambda: [("Content-Type", "application/json")]
    )
    body: bytes = b"{}"
    # Set by a test that wants the answer to wait for it.
    wait: threading.Event | None = None


class Recorder(ThreadingHTTPServer):
    """Dispatcher, query service and RPC egress in one."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.arrived: list[Arrived] = []
        self.answer = Answer()
        # Lines for who follows `/internal/changes`, and how many do.
        self.changes: queue.Queue[bytes | None] = queue.Queue()
        self.followers = 0
        self.files = ensure_certificates(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.files.server, self.files.key)
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.server_address[1]}"

    def tell(self, *changed: tuple[str, str | None]) -> None:
        """Who follows is told that these have changed."""
        changes = [{"kind": kind, "id": each} for kind, each in changed]
        self.changes.put(json.dumps({"changes": changes}).encode() + b"\n")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Recorder

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _take(self) -> None:
        if self.path == "/internal/changes":
            self._follow()
            return
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.arrived.append(Arrived(self.command, self.path, headers, body))
        answer = replace(self.server.answer)
        if answer.wait is not None:
            answer.wait.wait(60)
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _take

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", "0")))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _follow(self) -> None:
        assert self.headers["x-trace-service-token"] == SERVICE_TOKEN
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        self.server.followers += 1
        self.wfile.write(b'{"changes": []}\n')
        self.wfile.flush()
        while (line := self.server.changes.get()) is not CUT:
            self.wfile.write(line)
            self.wfile.flush()


class ServedGateway:
    def __init__(self, home: Home, port: int, behind: Recorder) -> None:
        self.home, self.port, self.behind = home, port, behind
        self.url = f"http://localhost:{port}"
        self.cookie = f"trace_session_{port}"
        self.sessions = LoginSessions(home, 3600.0)
        self.http = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def as_program(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {OWNER_TOKEN}"}

    def as_page(self) -> dict[str, str]:
        """What a page of the console sends, in a session of its own."""
        opened = self.sessions.open(self.sessions.make_code())
        assert opened is not None
        return {
            "Cookie": f"{self.cookie}={opened.token}",
            "X-Trace-CSRF": opened.key,
            "Origin": self.url,
            "Sec-Fetch-Site": "same-origin",
        }

    def raw(self, request: bytes) -> bytes:
        """What a client that spells as it likes is answered until the connection ends."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def served_gateway(
    folder: Path, console: Path | None = None, allowance: Allowance | None = None
) -> Iterator[ServedGateway]:
    home = Home(folder / "home")
    home.root.mkdir(parents=True, exist_ok=True)
    for name, token in (("user_token", OWNER_TOKEN), ("service_token", SERVICE_TOKEN)):
        (home.secrets / name).write_text(token)
    behind = Recorder(folder / "tls")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    ready, servers = threading.Event(), []

    async def serve() -> None:
        gateway = Gateway(
            Listen("127.0.0.1", port),
            ["localhost", "127.0.0.1"],
            Behind(
                dict.fromkeys(("dispatcher", "query", "rpc"), behind.url),
                *(behind.files.ca, OWNER_TOKEN, SERVICE_TOKEN),
            ),
            LoginSessions(home, 3600.0),
            QueryUsers(home).find,
            console or folder / "no_build",
            allowance or Allowance(requests_per_second=100_000, burst=100_000),
        )
        config = uvicorn.Config(
            *(gateway.app,), http=BoundedRequest, ws="none", log_config=None, server_header=False
        )
        servers.append(_Server(config, ready))
        try:
            await servers[0].serve(sockets=[listener])
        finally:
            gateway.live.close()
            await gateway.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    served = ServedGateway(home, port, behind)
    try:
        yield served
    finally:
        served.http.close()
        behind.changes.put(CUT)
        servers[0].should_exit = servers[0].force_exit = True
        thread.join(60)
        behind.shutdown()
        behind.server_close()
        assert not thread.is_alive()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: threading.Event) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.set()
