"""Routes for what is not right any more: say so, and see how far it is put right."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query

from trace_platform.dispatcher.api.parameters import DatasetName, Limit
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.redo.invalidate import invalidate
from trace_platform.dispatcher.redo.list_invalidations import list_invalidations
from trace_platform.wire import invalidation


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.post(
        "/v1/invalidations",
        summary="Say that a part of a dataset is invalid",
        **route("invalidations", "user", 404, 409),
    )
    async def say(body: invalidation.InvalidateRequest) -> invalidation.InvalidateResponse:
        """Its producer makes it anew, or, when that is a source, whoever read it does so again."""
        return await invalidate(dispatcher.state, dispatcher.org_id, body)

    @app.get(
        "/v1/invalidations",
        summary="What is invalid, and how far it is put right",
        **route("invalidations", "user", 404),
    )
    async def listing(
        dataset: DatasetName | None = None,
        open: Annotated[bool, Query(description="Only what is not processed.")] = False,
        limit: Limit = 100,
    ) -> invalidation.InvalidationList:
        return await list_invalidations(
            dispatcher.state, dispatcher.org_id, dataset, limit, open_only=open
        )
