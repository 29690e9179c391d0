"""The routes for alerts."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query

from trace_platform.dispatcher.api.parameters import Limit
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.health.acknowledge_alerts import acknowledge_alerts
from trace_platform.dispatcher.health.list_alerts import list_alerts
from trace_platform.wire.alert import Acknowledged, AcknowledgeRequest, AlertList, Severity


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get(
        "/v1/alerts",
        summary="Alerts, the newest first",
        **route("alerts", "user"),
    )
    async def alerts(
        severity: Annotated[Severity, Query(description="Of this severity, and worse.")] = "info",
        standing: Annotated[
            bool, Query(description="Only those that are neither acknowledged nor over.")
        ] = False,
        limit: Limit = 100,
    ) -> AlertList:
        return await list_alerts(dispatcher.data, severity, limit, standing=standing)

    @app.post(
        "/v1/alerts/acknowledge",
        summary="Say that alerts are known",
        **route("alerts", "user", 404),
    )
    async def acknowledge(body: AcknowledgeRequest) -> Acknowledged:
        """They stand no more, and who said so is on record. The first one is: saying it again
        changes nothing."""
        return await acknowledge_alerts(dispatcher.data, body)
