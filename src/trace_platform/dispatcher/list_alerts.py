"""What somebody should know, the newest first."""

from __future__ import annotations

from trace_platform.data import alerts_read
from trace_platform.drivers.postgres.database import Database
from trace_platform.wire.alert import SEVERITIES, Alert, AlertList, Severity


async def list_alerts(data: Database, severity: Severity, limit: int) -> AlertList:
    """Of this severity, and worse."""
    async with data.transaction() as tx:
        rows = await alerts_read.listing(tx, SEVERITIES[SEVERITIES.index(severity) :], limit)
    return AlertList(alerts=[Alert(**row) for row in rows])
