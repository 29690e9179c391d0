"""The route for alerts."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query

from trace_platform.dispatcher.api.parameters import Limit
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.list_alerts import list_alerts
from trace_platform.wire.alert import AlertList, Severity


def install(app: FastAPI, me: Dispatcher, route: Routes) -> None:
    @app.get(
        "/v1/alerts",
        summary="What somebody should know, the newest first",
        **route("alerts", "user"),
    )
    async def alerts(
        severity: Annotated[Severity, Query(description="Of this severity, and worse.")] = "info",
        limit: Limit = 100,
    ) -> AlertList:
        return await list_alerts(me.data, severity, limit)
