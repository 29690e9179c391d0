"""Routes for the other services of the platform, and for whoever watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from trace_platform.dispatcher.authenticate import require
from trace_platform.dispatcher.describe import resolve_datasets
from trace_platform.wire.query import ResolveResponse

if TYPE_CHECKING:
    from trace_platform.dispatcher.api import Dispatcher


def install(app: FastAPI, me: Dispatcher) -> None:
    service = require(lambda: (me.secrets.service_token,), "X-Trace-Service-Token")

    @app.get("/internal/datasets", dependencies=[service])
    async def datasets() -> ResolveResponse:
        return await resolve_datasets(me.state, me.org_id)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        async with me.state.transaction() as tx:
            await tx.execute("SELECT 1")
        return {"status": "ok"}
