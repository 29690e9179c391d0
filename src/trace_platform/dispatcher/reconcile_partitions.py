"""A committed partition whose event is not on record gets it, by whatever accident it was lost."""

from __future__ import annotations

from trace_platform.drivers.postgres.database import Database
from trace_platform.state import datasets, events


async def reconcile_partitions(state: Database, limit: int = 1000) -> int:
    """How many events were missing. Recorded as usual, they are routed as usual."""
    async with state.transaction() as tx:
        lost = await datasets.lost_events(tx, limit)
        return await events.record(tx, lost) if lost else 0
