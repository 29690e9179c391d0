"""A node of a provider that behaves badly, over real HTTP on loopback: it lies, lags, limits,
truncates, hangs or dies, as a test tells it to."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Fault:
    """In place of an answer. Without a body: the right one."""

    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    # Only so many bytes of what was announced, then the connection ends.
    cut_after: int | None = None
    hang: bool = False
    # Over every call of the body: a JSON-RPC error.
    error: dict[str, Any] | None = None
    # Over every call of the body.
    result: Any = ...


HANG = Fault(hang=True)
HANG_UP = Fault(cut_after=0)
HTML = Fault(
    body=b"<html><body>502 Bad Gateway</body></html>", headers={"Content-Type": "text/html"}
)
NULL = Fault(result=None)


def limited(retry_after: str | None = None) -> Fault:
    return Fault(429, b"slow down", {"Retry-After": retry_after} if retry_after else {})


@dataclass
class BadProvider:
    chain_id: int = 1
    head: int = 100
    # Names the chain of hashes that it serves: another name, another history.
    history: str = "main"
    # From which block on its history is its own.
    forks_at: int = 1 << 62
    # One after the other, for requests that have this method; then it answers as it should.
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    always: dict[str, Fault] = field(default_factory=dict)
    # What becomes of an answer, or of a batch of them, on its way out.
    edit: Callable[[Any], Any] = lambda told: told
    # Methods of each request, without those of the egress's own looks.
    requests: list[list[str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    seen_headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    released: threading.Event = field(default_factory=threading.Event)
    # Set when a client hung up on an answer that it waited for.
    abandoned: threading.Event = field(default_factory=threading.Event)
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def hash(self, number: int) -> str:
        name = self.history if number >= self.forks_at else "main"
        return "0x" + hashlib.sha256(f"{name} {number}".encode()).hexdigest()

    def reply(self, call: Any) -> dict[str, Any]:
        told = {"jsonrpc": "2.0", "id": call.get("id")}
        return told | {"result": self._result(call["method"], call.get("params") or [])}

    def _result(self, method: str, params: list[Any]) -> Any:
        if method == "eth_chainId":
            return hex(self.chain_id)
        if method == "eth_blockNumber":
            return hex(self.head)
        if method == "eth_getBlockByNumber":
            number = self.head if params[0] == "latest" else int(params[0], 16)
            if number > self.head:
                return None
            return {"number": hex(number), "hash": self.hash(number)}
        return f"{method} {json.dumps(params)}"

    def fault(self, methods: list[str]) -> Fault:
        with self._lock:
            for method in methods:
                if self.faults.get(method):
                    return self.faults[method].pop(0)
                if method in self.always:
                    return self.always[method]
        return Fault()

    def begin(self, body: Any, path: str, headers: dict[str, str]) -> list[str]:
        methods = [call["method"] for call in (body if isinstance(body, list) else [body])]
        with self._lock:
            self.requests.append(methods)
            self.bodies.append(body)
            self.paths.append(path)
            self.seen_headers.append(headers)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        self.asked.release()
        return methods

    def end(self) -> None:
        with self._lock:
            self._now -= 1

    def times(self, method: str) -> int:
        """How many requests had this method."""
        with self._lock:
            return sum(method in methods for methods in self.requests)


@contextmanager
def bad_provider(**given: Any) -> Iterator[BadProvider]:
    node = BadProvider(**given)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            methods = node.begin(body, self.path, dict(self.headers))
            try:
                self._answer(body, node.fault(methods))
            finally:
                node.end()

        def _answer(self, body: Any, fault: Fault) -> None:
            if fault.hang:
                self._hang()
                return
            content = fault.body if fault.body is not None else _content(body, fault)
            if fault.cut_after == 0:
                self.close_connection = True
                return
            self.send_response(fault.status)
            for name, value in fault.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            try:
                self.wfile.write(content[: fault.cut_after])
            except OSError:
                node.abandoned.set()
            if fault.cut_after is not None:
                self.close_connection = True

        def _hang(self) -> None:
            self.close_connection = True
            self.connection.settimeout(0.05)
            while not node.released.is_set():
                try:
                    if not self.connection.recv(1):
                        node.abandoned.set()
                        return
                except TimeoutError:
                    continue
                except OSError:
                    node.abandoned.set()
                    return

        def log_message(self, *_: Any) -> None:
            pass

    def _content(body: Any, fault: Fault) -> bytes:
        def one(call: Any) -> dict[str, Any]:
            if fault.error is not None:
                return {"jsonrpc": "2.0", "id": call["id"], "error": fault.error}
            if fault.result is not ...:
                return {"jsonrpc": "2.0", "id": call["id"], "result": fault.result}
            return node.reply(call)

        told = [one(call) for call in body] if isinstance(body, list) else one(body)
        return json.dumps(node.edit(told)).encode()

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # clients hang up here by design

    with Server(("127.0.0.1", 0), Handler) as server:
        node.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield node
        finally:
            node.released.set()
            server.shutdown()
            thread.join()
