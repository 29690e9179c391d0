"""The RPC egress served from a thread, over plain HTTP: TLS is part of the tests of instances."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
import uvloop

from trace_platform.rpc.config import PoolConfig, ProviderConfig, Timing
from trace_platform.rpc.key_claims import DispatcherClient, KeyRegistry
from trace_platform.rpc.serve import egress_app

WORKER_TOKEN = "worker-secret"
USER_TOKEN = "user-secret"
QUICK = Timing(
    answer_s=5.0,
    deadline_s=15.0,
    poll_s=0.05,
    idle_poll_s=0.05,
    backoff_s=(0.01, 0.02, 0.03),
    first_rest_s=0.1,
    longest_rest_s=0.2,
    limited_rest_s=0.05,
    lease_s=0.3,
)


class GrantsAll:
    async def claim(self, holder: str, keys: Sequence[str], lease_s: float) -> set[str]:
        return set(keys)


class ServedEgress:
    """What a client sees of it."""

    def __init__(self, url: str, tokens: list[str]) -> None:
        self.url = url
        # What is let in now.
        self.tokens = tokens
        self.http = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def post(self, pool: str, body: Any, token: str = WORKER_TOKEN, **more: Any) -> httpx.Response:
        headers = {"X-Trace-Worker-Token": token}
        return self.http.post(f"/pools/{pool}", json=body, headers=headers, **more)

    def call(self, method: str, *params: Any, pool: str = "main", agree: bool = False) -> Any:
        """The whole answer to one call."""
        query = {"params": {"agree": "majority"}} if agree else {}
        response = self.post(pool, call(method, *params), **query)
        assert response.status_code == 200, response.text
        return response.json()

    def pools(self) -> dict[str, dict[str, Any]]:
        response = self.http.get("/v1/pools", headers={"Authorization": f"Bearer {USER_TOKEN}"})
        return {pool["name"]: pool for pool in response.json()["pools"]}

    def providers(self, pool: str = "main") -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.pools()[pool]["providers"]}

    def states(self, pool: str = "main") -> dict[str, str]:
        return {name: each["state"] for name, each in self.providers(pool).items()}


def call(method: str, *params: Any, call_id: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": list(params)}


def pool(
    *urls: str,
    name: str = "main",
    chain_id: int | None = None,
    ranked: bool = True,
    **options: Any,
) -> PoolConfig:
    """Providers a, b, c … of these URLs; `ranked`: in that order of priority."""
    providers = (
        ProviderConfig(chr(ord("a") + i), url, priority=i if ranked else 1, **options)
        for i, url in enumerate(urls)
    )
    return PoolConfig(name, tuple(providers), chain_id)


@contextmanager
def served_egress(
    *pools: PoolConfig,
    timing: Timing = QUICK,
    registry: KeyRegistry | None = None,
    holder: str = "test",
) -> Iterator[ServedEgress]:
    tokens = [WORKER_TOKEN]
    ready, servers = threading.Event(), []

    async def serve() -> None:
        app = egress_app(pools, registry or GrantsAll(), holder, lambda: tokens, USER_TOKEN, timing)
        config = uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=1)
        servers.append(_Server(config, ready))
        await servers[0].serve()
        if isinstance(registry, DispatcherClient):
            await registry.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(60)
    port = servers[0].servers[0].sockets[0].getsockname()[1]
    egress = ServedEgress(f"http://127.0.0.1:{port}", tokens)
    try:
        yield egress
    finally:
        egress.http.close()
        servers[0].should_exit = True
        thread.join(60)
        assert not thread.is_alive()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: threading.Event) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.set()
