"""What the Dispatcher does in Postgres data: drop what was purged, and read alerts."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


async def drop_hot_table(tx: Tx, version: UUID) -> bool:
    """Whether there was one."""
    return bool(await _sql.drop_hot_table(tx, version=version))


async def alerts(tx: Tx, severities: Sequence[str], limit: int) -> list[Row]:
    """The newest first."""
    rows: list[Row] = await _sql.alerts(tx, severities=list(severities), limit=limit)
    return rows
