"""Routes about sources: how they do, for people; what is due, for the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from trace_platform.dispatcher.authenticate import require
from trace_platform.dispatcher.list_schedules import list_schedules
from trace_platform.dispatcher.list_sources import list_sources
from trace_platform.dispatcher.openapi import documented
from trace_platform.dispatcher.tick_source import tick_source
from trace_platform.wire import sources

if TYPE_CHECKING:
    from trace_platform.dispatcher.api import Dispatcher


def install(app: FastAPI, me: Dispatcher) -> None:
    user = require(lambda: (me.secrets.user_token,), "Authorization")
    service = require(lambda: (me.secrets.service_token,), "X-Trace-Service-Token")

    @app.get(
        "/v1/sources",
        summary="The sources, and how each of them does",
        dependencies=[user],
        **documented("events", "user"),
    )
    async def listing() -> sources.SourceList:
        return await list_sources(me.state, me.org_id)

    @app.get(
        "/internal/schedules",
        summary="Every cron source, and the time",
        dependencies=[service],
        **documented("services", "service"),
    )
    async def schedules() -> sources.ScheduleList:
        return await list_schedules(me.state, me.org_id)

    @app.post(
        "/internal/schedules/tick",
        summary="Make a cron source emit its ticks",
        dependencies=[service],
        **documented("services", "service", 404, 409, 413),
    )
    async def tick(body: sources.TickRequest) -> sources.TickResponse:
        """The same tick twice is one event."""
        accepted = await tick_source(me.state, me.org_id, body)
        me.wake.set()
        return sources.TickResponse(accepted=accepted)
