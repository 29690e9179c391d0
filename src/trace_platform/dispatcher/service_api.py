"""Routes for the other services of the platform, and for whoever watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI, Response

from trace_platform.dispatcher import metrics, openapi
from trace_platform.dispatcher.authenticate import require
from trace_platform.dispatcher.claim_rpc_keys import claim_rpc_keys
from trace_platform.dispatcher.describe import resolve_datasets
from trace_platform.dispatcher.openapi import documented
from trace_platform.wire.control import Alive
from trace_platform.wire.query import ResolveResponse
from trace_platform.wire.rpc import KeyClaimRequest, KeyClaimResponse

if TYPE_CHECKING:
    from trace_platform.dispatcher.api import Dispatcher


def install(app: FastAPI, me: Dispatcher) -> None:
    service = require(lambda: (me.secrets.service_token,), "X-Trace-Service-Token")
    user = require(lambda: (me.secrets.user_token,), "Authorization")
    openapi.install(app)

    @app.get(
        "/internal/datasets",
        summary="Every published dataset with its files",
        dependencies=[service],
        **documented("services", "service"),
    )
    async def datasets() -> ResolveResponse:
        return await resolve_datasets(me.state, me.org_id)

    @app.post(
        "/internal/rpc/key-claims",
        summary="Claim the keys of RPC providers",
        dependencies=[service],
        **documented("services", "service", 413),
    )
    async def claim_keys(body: KeyClaimRequest) -> KeyClaimResponse:
        """Claims by name, renews, or with a lease of 0 gives back."""
        return await claim_rpc_keys(me.state, body)

    @app.get("/healthz", summary="Whether it answers", **documented("services", None))
    async def healthz() -> Alive:
        async with me.state.transaction() as tx:
            await tx.execute("SELECT 1")
        return Alive()

    described = documented("services", "user")
    text = {"text/plain": {"schema": {"type": "string"}}}
    described["responses"][200] = {"description": "Prometheus' text format.", "content": text}

    @app.get(
        "/metrics",
        summary="Figures for Prometheus",
        dependencies=[user],
        response_class=Response,
        **described,
    )
    async def figures() -> Response:
        return Response(me.metrics.exposition(), media_type=metrics.CONTENT_TYPE)
