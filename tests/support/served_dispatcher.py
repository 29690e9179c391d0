"""The Dispatcher served from a thread, with its loops, so that it can be stopped and started again
on the same port under a worker's feet. Plain HTTP, unless the port and certificates of an instance
are given."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import uvicorn

from tests.support.control_plane import ControlPlane
from tests.support.own_port import own_port
from trace_platform.dispatcher.run_loops import Tuning, running_loops
from trace_platform.drivers.http_invoker import HttpInvoker
from trace_platform.drivers.lite.certificates import Certificates, ensure_certificates


class ServedDispatcher:
    def __init__(
        self,
        dsns: Any,
        folder: Path,
        data_dsn: str = "",
        secured: tuple[int, Certificates] | None = None,
    ) -> None:
        self._dsns = dsns
        self._data_dsn = data_dsn
        self._folder = folder
        self._shown: dict[str, Any] = {}
        if secured is None:
            self.tls = ensure_certificates(folder / "tls")
            self.port = own_port(folder / "port")
        else:
            self.port, self.tls = secured
            self._shown = {"ssl_certfile": self.tls.server, "ssl_keyfile": self.tls.key}
        self.url = f"http{'s' if secured else ''}://localhost:{self.port}"

    def start(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive()

    def run(self, work: Any) -> Any:
        """Run a coroutine made by `work(plane)` in the dispatcher's loop."""
        return asyncio.run_coroutine_threadsafe(work(self.plane), self._loop).result(60)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.plane = await ControlPlane.open(self._dsns, self._folder, self._data_dsn)
        config = uvicorn.Config(
            self.plane.app,
            host="127.0.0.1",
            port=self.port,
            log_config=None,
            timeout_graceful_shutdown=1,
            **self._shown,
        )
        self._server = _Server(config, self._ready)
        async with running_loops(
            self.plane.dispatcher,
            self.plane.queue,
            HttpInvoker(),
            Tuning(loop_interval_s=0.05, reap_grace_s=0),
        ):
            await self._server.serve()
            await self._end_connections()
        await self.plane.close()

    async def _end_connections(self) -> None:
        """Those that a client keeps would outlive the loop."""
        while left := list(self._server.server_state.connections):
            for each in left:
                each.transport.abort()
            await asyncio.sleep(0)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: threading.Event) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.set()
