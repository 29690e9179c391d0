"""Routes for the other services of the platform, and for whoever watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Path, Query, Response

from trace_platform.dispatcher import metrics, openapi
from trace_platform.dispatcher.authenticate import require
from trace_platform.dispatcher.claim_rpc_keys import claim_rpc_keys
from trace_platform.dispatcher.dataset_page import dataset_page, summarize_datasets
from trace_platform.dispatcher.openapi import documented
from trace_platform.dispatcher.parameters import Limit
from trace_platform.dispatcher.record_queries import (
    list_pii_accesses,
    list_queries,
    record_queries,
)
from trace_platform.dispatcher.resolve_datasets import resolve_datasets
from trace_platform.wire import query
from trace_platform.wire.control import Alive, EmitResponse
from trace_platform.wire.pii_access import PiiAccesses
from trace_platform.wire.rpc import KeyClaimRequest, KeyClaimResponse

if TYPE_CHECKING:
    from trace_platform.dispatcher.api import Dispatcher

Caller = Annotated[str, Query(min_length=1, max_length=256, description="Who asked.")]
Read = Annotated[
    str, Query(min_length=1, max_length=512, description="The name of a dataset that was read.")
]


def install(app: FastAPI, me: Dispatcher) -> None:
    service = require(lambda: (me.secrets.service_token,), "X-Trace-Service-Token")
    user = require(lambda: (me.secrets.user_token,), "Authorization")
    openapi.install(app)
    _datasets(app, me, service)
    _queries(app, me, service, user)

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


def _datasets(app: FastAPI, me: Dispatcher, service: Any) -> None:
    @app.get(
        "/internal/datasets",
        summary="Every published dataset",
        dependencies=[service],
        **documented("services", "service"),
    )
    async def datasets() -> query.DatasetList:
        return await summarize_datasets(me.state, me.org_id)

    @app.post(
        "/internal/datasets/resolve",
        summary="What the datasets of a query are, and where their rows lie",
        dependencies=[service],
        response_model=query.ResolveResponse,
        **documented("services", "service", 404, 409, 413),
    )
    async def resolve(body: query.ResolveRequest) -> Response:
        """Published names as they are now, at a generation or at a moment; or generations by
        themselves. All of one moment."""
        answer = await resolve_datasets(me.state, me.org_id, body)
        # Straight to bytes: there may be many files.
        return Response(answer.model_dump_json(), media_type="application/json")

    @app.get(
        "/internal/datasets/{dataset}",
        summary="All of a dataset on one page",
        dependencies=[service],
        **documented("services", "service", 404),
    )
    async def page(
        dataset: Annotated[
            str,
            Path(
                min_length=1,
                max_length=512,
                description="A published name, a uuid, or DAG.JOB.OUTPUT.",
            ),
        ],
    ) -> query.DatasetPage:
        return await dataset_page(me.state, me.grants.bucket, me.org_id, dataset)


def _queries(app: FastAPI, me: Dispatcher, service: Any, user: Any) -> None:
    @app.post(
        "/internal/queries",
        summary="Put queries on record",
        dependencies=[service],
        **documented("services", "service", 413),
    )
    async def record(body: query.RecordQueries) -> EmitResponse:
        """Never their text. One that is known already changes nothing."""
        return EmitResponse(accepted=await record_queries(me.state, me.org_id, body))

    @app.get(
        "/internal/queries",
        summary="The queries of a caller",
        dependencies=[service],
        **documented("services", "service"),
    )
    async def own(caller: Caller, limit: Limit = 100) -> query.QueryHistory:
        return await list_queries(me.state, me.org_id, caller, None, limit)

    @app.get(
        "/v1/queries",
        summary="The queries of everybody",
        dependencies=[user],
        **documented("queries", "user"),
    )
    async def queries(
        caller: Caller | None = None, dataset: Read | None = None, limit: Limit = 100
    ) -> query.QueryHistory:
        """Who read what, how much and for how long; never the text."""
        return await list_queries(me.state, me.org_id, caller, dataset, limit)

    @app.get(
        "/v1/pii-access",
        summary="Who saw columns that tell about persons",
        dependencies=[user],
        **documented("queries", "user"),
    )
    async def accesses(
        caller: Caller | None = None, dataset: Read | None = None, limit: Limit = 100
    ) -> PiiAccesses:
        return await list_pii_accesses(me.state, me.org_id, caller, dataset, limit)
