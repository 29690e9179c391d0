"""What somebody should know, the newest first."""

from __future__ import annotations

from dataclasses import asdict

from trace_platform.data import alerts_read
from trace_platform.data.alerts_read import ListedAlert
from trace_platform.drivers.postgres.database import Database
from trace_platform.wire.alert import SEVERITIES, Alert, AlertList, Severity


async def list_alerts(
    data: Database, severity: Severity, limit: int, *, standing: bool = False
) -> AlertList:
    """Of this severity, and worse; with `standing` those that are neither acknowledged nor over."""
    severities = SEVERITIES[SEVERITIES.index(severity) :]
    async with data.transaction() as tx:
        rows = await alerts_read.listing(tx, severities, limit, standing=standing)
    return AlertList(alerts=[alert_of(row) for row in rows])


def alert_of(row: ListedAlert) -> Alert:
    is_over = row.is_over or row.severity == "info"
    known = asdict(row)
    del known["is_over"]
    return Alert(**known, stands=not is_over and row.acknowledged_at is None)
