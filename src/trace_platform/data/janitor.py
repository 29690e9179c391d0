"""What the Dispatcher changes in Postgres data: it drops what was purged."""

from __future__ import annotations

from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


async def drop_hot_table(tx: Tx, version: UUID) -> bool:
    """Whether there was one."""
    return bool(await _sql.drop_hot_table(tx, version=version))
