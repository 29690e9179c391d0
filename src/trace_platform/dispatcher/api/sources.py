"""Routes about sources: how they do, for people; what is due, for the scheduler."""

from __future__ import annotations

from fastapi import FastAPI

from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.sources.list_schedules import list_schedules
from trace_platform.dispatcher.sources.list_sources import list_sources
from trace_platform.dispatcher.sources.tick_source import tick_source
from trace_platform.wire import sources
from trace_platform.wire.task import Accepted


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get(
        "/v1/sources",
        summary="The sources, and how each of them does",
        **route("events", "user"),
    )
    async def listing() -> sources.SourceList:
        return await list_sources(dispatcher.state, dispatcher.org_id)

    @app.get(
        "/internal/schedules",
        summary="Every cron source, and the time",
        **route("services", "service"),
    )
    async def schedules() -> sources.ScheduleList:
        return await list_schedules(dispatcher.state, dispatcher.org_id)

    @app.post(
        "/internal/schedules/tick",
        summary="Make a cron source emit its ticks",
        **route("services", "service", 404, 409, 413),
    )
    async def tick(body: sources.TickRequest) -> Accepted:
        """The same tick twice is one event."""
        accepted = await tick_source(dispatcher.state, dispatcher.org_id, body)
        dispatcher.wake.set()
        return Accepted(accepted=accepted)
