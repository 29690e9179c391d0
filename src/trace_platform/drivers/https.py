"""Serving an ASGI app, over TLS where there is a certificate, until the process is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trace_platform.domain.errors import BadInput, PortInUse, SetupError
from trace_platform.drivers.bounded_request import MAX_BODY_BYTES, BoundedRequest
from trace_platform.drivers.problem import problem

_STOP_S = 5
# Lists and objects in a body. Empty ones take 30 times their two bytes once they are parsed.
MAX_CONTAINERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Listen:
    """Without a certificate: plain HTTP."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None


async def serve_https(
    app: FastAPI,
    listen: Listen,
    on_ready: Callable[[], None],
    on_stop: Callable[[], None] = lambda: None,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> None:
    """The same, with the bodies of all requests bounded."""
    await serve_app(BodyLimit(app, max_body_bytes), listen, on_ready, on_stop)


async def serve_app(
    app: ASGIApp,
    listen: Listen,
    on_ready: Callable[[], None],
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT. `on_ready` is called once requests are answered, `on_stop`
    when no more are taken and those under way have a few seconds left."""
    listener = _bind(listen)
    config = uvicorn.Config(
        app,
        http=BoundedRequest,
        ws="none",
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.key,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_STOP_S,
    )
    server = _Server(config, on_ready, on_stop)
    try:
        await server.serve(sockets=[listener])
    finally:
        listener.close()
    if not server.started:
        raise SetupError("the service did not start", hint="see its log")


class BodyLimit:
    """Refuses a body that is too large, or would be once it is parsed, before anything holds all
    of it in memory."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if int(announced) > self._max_bytes:
            await problem(self._too_large(), 413)(scope, receive, send)
            return
        seen = containers = 0

        async def counted() -> Message:
            nonlocal seen, containers
            message = await receive()
            part = message.get("body", b"")
            seen += len(part)
            if seen > self._max_bytes:
                raise HTTPException(413, self._too_large().message)
            containers += part.count(b"[") + part.count(b"{")
            if containers > MAX_CONTAINERS:
                said = f"the body has more than {MAX_CONTAINERS:,} lists and objects"
                raise HTTPException(422, said)
            return message

        await self._app(scope, counted, send)

    def _too_large(self) -> BadInput:
        return BadInput(f"the body is larger than {self._max_bytes:,} bytes")


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_ready, self._on_stop = on_ready, on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn raises the signal again when it is done, which would hide a clean stop.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _bind(listen: Listen) -> socket.socket:
    try:
        listener = socket.create_server((listen.host, listen.port), backlog=256)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"port {listen.port} is in use", hint="stop what uses it or choose another port"
            ) from None
        raise
    # asyncio sets this only on sockets that name their protocol; without it Nagle's algorithm and
    # delayed acknowledgements add 40 ms to every second request.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
