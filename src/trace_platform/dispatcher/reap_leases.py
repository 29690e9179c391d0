"""Attempts whose worker went silent are given up, so that another can start."""

from __future__ import annotations

from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row
from trace_platform.state import tasks


async def reap_leases(state: Database, limit: int = 100) -> list[Row]:
    """The attempts that were given up: Running -> Failed, and due for a retry."""
    async with state.transaction() as tx:
        return await tasks.reap(tx, limit)
