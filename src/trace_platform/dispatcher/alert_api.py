"""The route for alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import FastAPI, Query

from trace_platform.data import janitor
from trace_platform.dispatcher.authenticate import require
from trace_platform.dispatcher.openapi import documented
from trace_platform.dispatcher.parameters import Limit
from trace_platform.domain.errors import Unavailable
from trace_platform.wire.alert import SEVERITIES, Alert, AlertList, Severity

if TYPE_CHECKING:
    from trace_platform.dispatcher.api import Dispatcher


def install(app: FastAPI, me: Dispatcher) -> None:
    @app.get(
        "/v1/alerts",
        summary="What somebody should know, the newest first",
        dependencies=[require(lambda: (me.secrets.user_token,), "Authorization")],
        **documented("alerts", "user"),
    )
    async def alerts(
        severity: Annotated[Severity, Query(description="Of this severity, and worse.")] = "info",
        limit: Limit = 100,
    ) -> AlertList:
        if me.data is None:
            raise Unavailable("this dispatcher has no Postgres data")
        async with me.data.transaction() as tx:
            rows = await janitor.alerts(tx, SEVERITIES[SEVERITIES.index(severity) :], limit)
        return AlertList(alerts=[Alert(**row) for row in rows])
