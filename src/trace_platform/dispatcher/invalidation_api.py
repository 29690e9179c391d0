"""Routes for what is not right any more: say so, and see how far it is put right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import FastAPI, Query

from trace_platform.dispatcher.authenticate import require
from trace_platform.dispatcher.invalidate import invalidate
from trace_platform.dispatcher.list_invalidations import list_invalidations
from trace_platform.dispatcher.openapi import documented
from trace_platform.wire import invalidation

if TYPE_CHECKING:
    from trace_platform.dispatcher.api import Dispatcher


def install(app: FastAPI, me: Dispatcher) -> None:
    user = [require(lambda: (me.secrets.user_token,), "Authorization")]

    @app.post(
        "/v1/invalidations",
        summary="Say that a part of a dataset is invalid",
        dependencies=user,
        **documented("invalidations", "user", 404, 409),
    )
    async def say(body: invalidation.InvalidateRequest) -> invalidation.InvalidateResponse:
        """Its producer makes it anew, or, when that is a source, whoever read it does so again."""
        return await invalidate(me.state, me.org_id, body)

    @app.get(
        "/v1/invalidations",
        summary="What is invalid, and how far it is put right",
        dependencies=user,
        **documented("invalidations", "user", 404),
    )
    async def listing(
        dataset: Annotated[
            str | None,
            Query(
                min_length=1,
                max_length=512,
                description="A published name, a uuid, or DAG.JOB.OUTPUT.",
            ),
        ] = None,
        open: Annotated[bool, Query(description="Only what is not processed.")] = False,
        limit: Annotated[
            int, Query(ge=1, le=1000, description="At most this many, the newest first.")
        ] = 100,
    ) -> invalidation.InvalidationList:
        return await list_invalidations(me.state, me.org_id, dataset, limit, open_only=open)
