"""A JSON-RPC node that says what a test tells it to, over real HTTP on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str, list[Any]], Any]
HANG = object()
HANG_UP = object()


@dataclass(frozen=True)
class RpcError:
    """In place of a result."""

    code: int
    message: str


@dataclass(frozen=True)
class Raw:
    """In place of a whole HTTP answer."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class ScriptedRpc:
    answer: Answer
    # Served first, one per HTTP request, before `answer` is asked.
    faults: list[Any] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    requests: int = 0
    port: int = 0
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    released: threading.Event = field(default_factory=threading.Event)
    # What becomes of an answer, or of a batch of them, on its way out.
    edit: Callable[[Any], Any] = lambda told: told
    # Methods that are never answered.
    hang_on: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reply(self, body: Any) -> Any:
        if isinstance(body, list):
            return [self.reply(each) for each in body]
        self.calls.append(body["method"])
        found = self.answer(body["method"], body["params"])
        if isinstance(found, RpcError):
            return {"id": body["id"], "error": {"code": found.code, "message": found.message}}
        return {"jsonrpc": "2.0", "id": body["id"], "result": found}


@contextmanager
def scripted_rpc(answer: Answer, *faults: Any) -> Iterator[ScriptedRpc]:
    script = ScriptedRpc(answer, list(faults))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else each answer waits for an acknowledgement.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            script.requests += 1
            script.headers.append(dict(self.headers))
            script.asked.release()
            fault = script.faults.pop(0) if script.faults else None
            if script.hang_on & {call["method"] for call in _calls(body)}:
                fault = HANG
            if fault is HANG:
                script.released.wait()
            if fault is HANG or fault is HANG_UP:
                self.close_connection = True
                return
            whole = fault or Raw(body=json.dumps(script.edit(script.reply(body))).encode())
            self.send_response(whole.status)
            for name, value in whole.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(whole.body)))
            self.end_headers()
            self.wfile.write(whole.body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        script.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield script
        finally:
            script.released.set()
            server.shutdown()
            thread.join()


def _calls(body: Any) -> list[Any]:
    return body if isinstance(body, list) else [body]
