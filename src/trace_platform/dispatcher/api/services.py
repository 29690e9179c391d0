"""Routes for the other services of the platform, and for whoever watches it."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Response
from fastapi.responses import StreamingResponse

from trace_platform.dispatcher.api.parameters import DatasetName, Limit
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.claim_rpc_keys import claim_rpc_keys
from trace_platform.dispatcher.datasets.dataset_page import dataset_page, summarize_datasets
from trace_platform.dispatcher.datasets.record_queries import (
    list_pii_accesses,
    list_queries,
    record_queries,
)
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.health import metrics
from trace_platform.dispatcher.health.check_health import refuse_stuck
from trace_platform.dispatcher.health.follow_changes import follow_changes
from trace_platform.drivers.openapi import documented_figures
from trace_platform.wire import query
from trace_platform.wire.control import Alive
from trace_platform.wire.pii_access import PiiAccesses
from trace_platform.wire.rpc import KeyClaimRequest, KeyClaimResponse
from trace_platform.wire.task import Accepted

Caller = Annotated[str, Query(min_length=1, max_length=256, description="Who asked.")]
Read = Annotated[
    str, Query(min_length=1, max_length=512, description="The name of a dataset that was read.")
]


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    _datasets(app, dispatcher, route)
    _queries(app, dispatcher, route)

    @app.post(
        "/internal/rpc/key-claims",
        summary="Claim the keys of RPC providers",
        **route("services", "service", 413),
    )
    async def claim_keys(body: KeyClaimRequest) -> KeyClaimResponse:
        """Claims by name, renews, or with a lease of 0 gives back."""
        return await claim_rpc_keys(dispatcher.state, body)

    # Not among the others of its description: it has no end.
    @app.get(
        "/internal/changes",
        summary="What changes, a line at a time",
        include_in_schema=False,
        response_class=StreamingResponse,
        **route("services", "service"),
    )
    async def follow() -> StreamingResponse:
        found = follow_changes(
            dispatcher.state, dispatcher.data, dispatcher.org_id, dispatcher.stopping
        )
        lines = (each.model_dump_json().encode() + b"\n" async for each in found)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    @app.get("/healthz", summary="Whether it answers", **route("services", None))
    async def healthz() -> Alive:
        await refuse_stuck(dispatcher.state)
        return Alive()

    @app.get(
        "/metrics",
        summary="Figures for Prometheus",
        response_class=Response,
        **route("services", "user") | documented_figures(),
    )
    async def figures() -> Response:
        return Response(dispatcher.metrics.exposition(), media_type=metrics.CONTENT_TYPE)


def _datasets(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get(
        "/internal/datasets",
        summary="Every published dataset",
        **route("services", "service"),
    )
    async def datasets() -> query.DatasetList:
        return await summarize_datasets(dispatcher.state, dispatcher.data, dispatcher.org_id)

    @app.post(
        "/internal/datasets/resolve",
        summary="What the datasets of a query are, and where their rows lie",
        response_model=query.ResolveResponse,
        **route("services", "service", 404, 409, 413),
    )
    async def resolve(body: query.ResolveRequest) -> Response:
        """Published names as they are now, at a generation or at a moment; or generations by
        themselves. All of one moment."""
        answer = await resolve_datasets(dispatcher.state, dispatcher.org_id, body)
        # Straight to bytes: there may be many files.
        return Response(answer.model_dump_json(), media_type="application/json")

    @app.get(
        "/internal/datasets/{dataset}",
        summary="All of a dataset on one page",
        **route("services", "service", 404),
    )
    async def page(
        dataset: DatasetName,
    ) -> query.DatasetPage:
        return await dataset_page(
            dispatcher.state, dispatcher.data, dispatcher.grants.bucket, dispatcher.org_id, dataset
        )


def _queries(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.post(
        "/internal/queries",
        summary="Put queries on record",
        **route("services", "service", 413),
    )
    async def record(body: query.RecordQueries) -> Accepted:
        """Never their text. One that is known already changes nothing."""
        return Accepted(accepted=await record_queries(dispatcher.state, dispatcher.org_id, body))

    @app.get(
        "/internal/queries",
        summary="The queries of a caller",
        **route("services", "service"),
    )
    async def own(caller: Caller, limit: Limit = 100) -> query.QueryHistory:
        return await list_queries(dispatcher.state, dispatcher.org_id, caller, None, limit)

    @app.get(
        "/v1/queries",
        summary="The queries of everybody",
        **route("queries", "user"),
    )
    async def queries(
        caller: Caller | None = None, dataset: Read | None = None, limit: Limit = 100
    ) -> query.QueryHistory:
        """Who read what, how much and for how long; never the text."""
        return await list_queries(dispatcher.state, dispatcher.org_id, caller, dataset, limit)

    @app.get(
        "/v1/pii-access",
        summary="Who saw columns that tell about persons",
        **route("queries", "user"),
    )
    async def accesses(
        caller: Caller | None = None, dataset: Read | None = None, limit: Limit = 100
    ) -> PiiAccesses:
        return await list_pii_accesses(dispatcher.state, dispatcher.org_id, caller, dataset, limit)
