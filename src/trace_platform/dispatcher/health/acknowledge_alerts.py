"""Somebody knows of these alerts: they stand no more, and who it was is on record."""

from __future__ import annotations

from trace_platform.data import alerts_read
from trace_platform.dispatcher.health.list_alerts import alert_of
from trace_platform.domain.errors import NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.wire.alert import Acknowledged, AcknowledgeRequest


async def acknowledge_alerts(data: Database, request: AcknowledgeRequest) -> Acknowledged:
    """All of them or none. Raise NotFound for one that there is not."""
    async with data.transaction() as tx:
        new = await alerts_read.acknowledge(tx, request.alert_ids, request.by, request.note)
        rows = await alerts_read.by_ids(tx, request.alert_ids)
        unknown = set(request.alert_ids) - {row.alert_id for row in rows}
        if unknown:
            raise NotFound(
                f"there is no alert {min(unknown)}", hint="see which there are: trace alerts"
            )
    return Acknowledged(acknowledged=len(new), alerts=[alert_of(row) for row in rows])
