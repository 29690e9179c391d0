"""A query service that answers what a test told it to: real HTTP over TLS on loopback, no SQL."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa

from trace_platform.app.instance.home import Home
from trace_platform.app.supervise.ready import mark_ready
from trace_platform.domain.errors import TraceError
from trace_platform.drivers.lite.certificates import ensure_certificates
from trace_platform.drivers.problem import problem

VERSION = UUID("0a1b2c3d-0000-7000-8000-000000000000")


@dataclass
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    # Break off after so many bytes of the body, and after what `then` does.
    cut: int | None = None
    then: Callable[[], object] = lambda: None


# Of the request's JSON. It may wait: each request has a thread of its own.
Answer = Callable[[dict[str, Any]], Reply]


class ScriptedApi(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, home: Home) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.home = home
        self.token = home.secret("user_token")
        # POST /v1/query: one after the other, the last one for ever.
        self.queries: list[Answer] = [rows_reply({"n": "BIGINT"}, [[1]])]
        self.gets: dict[str, Reply] = {}
        self.asked: list[dict[str, Any]] = []
        self.canceled: list[str] = []
        # How often somebody connected.
        self.connections = 0
        # Set when a query is cancelled.
        self.stopped = threading.Event()
        files = ensure_certificates(home.tls)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.server, files.key)
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        home.instance_file.write_text(json.dumps({"ports": {"query": self.server_port}}))
        mark_ready(home, "query")
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.server_port}"

    @property
    def sql(self) -> list[str]:
        return [each["sql"] for each in self.asked]

    def until_canceled(self, _: dict[str, Any]) -> Reply:
        """An answer that takes as long as the query is wanted."""
        assert self.stopped.wait(30), "nobody cancelled the query"
        return Reply(499)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients hang up on purpose


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: ScriptedApi

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        answers = self.server.queries
        self._reply((answers.pop(0) if len(answers) > 1 else answers[0])(body))

    def do_GET(self) -> None:
        self._reply(self.server.gets.get(self.path, Reply(404, b'{"code": "not_found"}')))

    def do_DELETE(self) -> None:
        self.server.canceled.append(self.path.rpartition("/")[2])
        self.server.stopped.set()
        self._reply(Reply(204))

    def _reply(self, reply: Reply) -> None:
        if self.headers["Authorization"] != f"Bearer {self.server.token}":
            reply = Reply(401, b'{"code": "unauthenticated", "detail": "a valid token is needed"}')
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
        self.wfile.flush()
        reply.then()
        self.close_connection = reply.cut is not None

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def scripted_api(folder: Path) -> Iterator[ScriptedApi]:
    home = Home(folder)
    home.root.mkdir(parents=True, exist_ok=True)
    server = ScriptedApi(home)
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()


def used(name: str = "blocks", masked: list[str] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "dataset_uuid": str(uuid4()),
        "dataset_version": str(VERSION),
        "masked": masked or [],
    }


def facts(columns: dict[str, str], row_count: int, **more: Any) -> dict[str, Any]:
    return {
        "query_id": str(uuid4()),
        "columns": [{"name": name, "type": type_} for name, type_ in columns.items()],
        "row_count": row_count,
        "truncated": False,
        "elapsed_ms": 1.25,
        "datasets": [used()],
        **more,
    }


def rows_reply(columns: dict[str, str], rows: list[list[Any]], **more: Any) -> Answer:
    body = facts(columns, len(rows)) | {"rows": rows, "next": None} | more
    return lambda _: Reply(body=json.dumps(body).encode())


def refusal(error: TraceError) -> Answer:
    answered = problem(error)
    headers = {"Content-Type": "application/problem+json"}
    if "retry-after" in answered.headers:
        headers["Retry-After"] = answered.headers["retry-after"]
    return lambda _: Reply(answered.status_code, bytes(answered.body), headers)


def arrow_reply(table: pa.Table, cut: int | None = None, **headers: str) -> Answer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, 1_000)
    body = sink.getvalue().to_pybytes()
    return lambda _: Reply(200, body, stream_headers(table.num_rows) | headers, cut)


def stream_headers(rows: int) -> dict[str, str]:
    return {
        "X-Trace-Query-Id": str(uuid4()),
        "X-Trace-Rows": str(rows),
        "X-Trace-Truncated": "false",
        "X-Trace-Elapsed-Ms": "1.25",
        "X-Trace-Datasets": f"blocks@{VERSION}",
    }
