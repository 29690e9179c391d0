"""Routes for backfills: what one would do, starting it, and steering it."""

from __future__ import annotations

from fastapi import FastAPI

from trace_platform.dispatcher.api.parameters import Limit, OfBackfill, OfDag
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.redo.control_backfill import control_backfill
from trace_platform.dispatcher.redo.plan_backfill import plan_backfill
from trace_platform.dispatcher.redo.show_backfill import list_backfills, show_backfill
from trace_platform.dispatcher.redo.start_backfill import start_backfill
from trace_platform.wire import backfill


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    _starts(app, dispatcher, route)
    _steering(app, dispatcher, route)


def _starts(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.post(
        "/v1/backfills/plan",
        summary="What a backfill would do",
        **route("backfills", "user", 404, 409),
    )
    async def plan(body: backfill.BackfillRange) -> backfill.BackfillPlan:
        """Changes nothing."""
        return await plan_backfill(dispatcher.state, dispatcher.org_id, body)

    @app.post(
        "/v1/backfills",
        summary="Have a job work through a range once more",
        **route("backfills", "user", 404, 409),
    )
    async def start(body: backfill.BackfillRequest) -> backfill.BackfillStarted:
        started = await start_backfill(dispatcher.state, dispatcher.org_id, body)
        dispatcher.wake.set()
        return started

    @app.get(
        "/v1/backfills",
        summary="Backfills, and how far they are",
        **route("backfills", "user", 404),
    )
    async def listing(dag_name: OfDag | None = None, limit: Limit = 20) -> backfill.BackfillList:
        return await list_backfills(dispatcher.state, dispatcher.org_id, dag_name, limit)

    @app.get(
        "/v1/backfills/{backfill_id}",
        summary="How far a backfill is, and what of it failed",
        **route("backfills", "user", 404),
    )
    async def show(backfill_id: OfBackfill) -> backfill.BackfillDetail:
        return await show_backfill(dispatcher.state, dispatcher.org_id, backfill_id)


def _steering(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.post(
        "/v1/backfills/{backfill_id}/pause",
        summary="Make no more tasks of a backfill",
        **route("backfills", "user", 404, 409),
    )
    async def pause(backfill_id: OfBackfill) -> backfill.BackfillAction:
        """Those that it has made already end as usual."""
        return await control_backfill(dispatcher.state, dispatcher.org_id, backfill_id, "pause")

    @app.post(
        "/v1/backfills/{backfill_id}/resume",
        summary="Let a paused backfill go on",
        **route("backfills", "user", 404, 409),
    )
    async def resume(backfill_id: OfBackfill) -> backfill.BackfillAction:
        return await control_backfill(dispatcher.state, dispatcher.org_id, backfill_id, "resume")

    @app.post(
        "/v1/backfills/{backfill_id}/cancel",
        summary="End a backfill",
        **route("backfills", "user", 404, 409),
    )
    async def cancel(backfill_id: OfBackfill) -> backfill.BackfillAction:
        """What waits is canceled at once, what runs with its next heartbeat."""
        return await control_backfill(dispatcher.state, dispatcher.org_id, backfill_id, "cancel")
