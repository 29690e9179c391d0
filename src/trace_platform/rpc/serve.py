"""The rpc process, from its pools to a clean stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

from trace_platform.drivers.https import Listen, serve_https
from trace_platform.rpc.api import create_app
from trace_platform.rpc.config import PoolConfig, Timing
from trace_platform.rpc.health import Health
from trace_platform.rpc.key_claims import KeyClaims, KeyRegistry
from trace_platform.rpc.metrics import Metrics
from trace_platform.rpc.pool import Pool
from trace_platform.rpc.relay import Relay


async def serve(
    listen: Listen,
    pools: Sequence[PoolConfig],
    registry: KeyRegistry,
    holder: str,
    worker_tokens: Callable[[], Sequence[str]],
    user_token: str,
    on_ready: Callable[[], None],
    *,
    timing: Timing | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT."""
    app = egress_app(pools, registry, holder, worker_tokens, user_token, timing or Timing())
    await serve_https(app, listen, on_ready)


def egress_app(
    pools: Sequence[PoolConfig],
    registry: KeyRegistry,
    holder: str,
    worker_tokens: Callable[[], Sequence[str]],
    user_token: str,
    timing: Timing,
) -> FastAPI:
    """Call it inside of the event loop that serves it."""
    clock = asyncio.get_running_loop().time
    made = [Pool.of(config, timing, clock) for config in pools]
    metrics = Metrics(lambda: made)
    relays = {pool.name: Relay(pool, metrics) for pool in made}
    claims = KeyClaims(registry, holder, made, timing.lease_s)

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        loops = [Health(relay).run(claims.tried) for relay in relays.values()]
        tasks = [asyncio.create_task(each) for each in (claims.run(), *loops)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await claims.release()
            for pool in made:
                for provider in pool.providers:
                    provider.close()

    return create_app(relays, metrics, worker_tokens, user_token, running)
