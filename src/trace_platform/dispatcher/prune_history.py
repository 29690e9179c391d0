"""What ended long ago is forgotten, a little at a time: no table grows for ever."""

from __future__ import annotations

from trace_platform.drivers.postgres.database import Database
from trace_platform.state import history


async def prune_history(state: Database, keep_days: float, limit: int = 10_000) -> int:
    """How many rows went. Nothing that is alive, or that a current partition came from."""
    pruned = 0
    for what in history.FORGET:
        async with state.statement() as tx:
            pruned += await history.forget(tx, what, keep_days, limit)
    return pruned
