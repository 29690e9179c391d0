"""The egress's HTTP: the pools for workers, and how they do for people and Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI, Response

from trace_platform.drivers import openapi, problem
from trace_platform.drivers.authenticate import OPEN, guard_routes, require
from trace_platform.drivers.headers import AUTHORIZATION
from trace_platform.drivers.openapi import documented, documented_figures
from trace_platform.rpc import metrics as figures
from trace_platform.rpc.metrics import Metrics
from trace_platform.rpc.pool import Pool
from trace_platform.rpc.pools_app import PoolsApp
from trace_platform.rpc.provider import Provider
from trace_platform.rpc.relay import Relay
from trace_platform.wire.control import Alive
from trace_platform.wire.rpc import PoolList, PoolStatus, ProviderStatus


def create_app(
    relays: Mapping[str, Relay],
    metrics: Metrics,
    worker_tokens: Callable[[], Sequence[str]],
    user_token: str,
    running: Callable[[], AbstractAsyncContextManager[None]],
) -> FastAPI:
    """`running` holds the loops behind the app while it serves."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with running():
            yield

    app = FastAPI(title="Trace RPC egress", docs_url=None, redoc_url=None, lifespan=lifespan)
    problem.install(app)
    openapi.install(app)
    guard_routes(app)
    user = require(lambda: (user_token,), AUTHORIZATION)

    @app.get(
        "/healthz",
        summary="Whether it answers",
        dependencies=[OPEN],
        **documented("services", None),
    )
    async def healthz() -> Alive:
        return Alive()

    @app.get(
        "/v1/pools",
        summary="The pools, and how their providers do",
        dependencies=[user],
        **documented("pools", "user"),
    )
    async def pools() -> PoolList:
        return PoolList(pools=[pool_status(relay.pool) for relay in relays.values()])

    @app.get(
        "/metrics",
        summary="Figures for Prometheus",
        dependencies=[user],
        response_class=Response,
        **documented_figures(),
    )
    async def measured() -> Response:
        return Response(metrics.exposition(), media_type=figures.CONTENT_TYPE)

    app.mount("/pools", PoolsApp(relays, worker_tokens, metrics))
    return app


def pool_status(pool: Pool) -> PoolStatus:
    return PoolStatus(
        name=pool.name,
        chain_id=pool.chain_id,
        head=pool.head,
        leader=pool.leader.name if pool.leader else None,
        providers=[_provider_status(pool, each) for each in pool.providers],
    )


def _provider_status(pool: Pool, provider: Provider) -> ProviderStatus:
    config = provider.config
    return ProviderStatus.model_validate(
        {
            "name": config.name,
            "endpoint": config.endpoint,
            "state": provider.state,
            "reason": provider.reason,
            "chain_id": provider.chain_id,
            "head": provider.head.number,
            "lag": pool.lag(provider),
            "in_flight": provider.slots.busy,
            "max_concurrency": config.max_concurrency,
            "requests_per_second": config.requests_per_second,
            "max_batch": config.max_batch,
            "priority": config.priority,
            "requests": provider.counts.requests,
            "failures": provider.counts.failures,
            "limits_hit": provider.counts.limits_hit,
            "key": config.key_name,
        }
    )
