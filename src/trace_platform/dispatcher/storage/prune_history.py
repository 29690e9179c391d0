"""What ended long ago is forgotten, a little at a time: no table grows for ever."""

from __future__ import annotations

from dataclasses import dataclass

from trace_platform.data import alerts_read
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import DeadLetters
from trace_platform.state import history


@dataclass(frozen=True, slots=True)
class Keep:
    """How many days what is dealt with, or what nobody took, is kept."""

    history_days: float = 90.0
    alert_days: float = 90.0
    message_days: float = 14.0


async def prune(
    state: Database, data: Database, dead: DeadLetters, keep: Keep, limit: int = 10_000
) -> int:
    """How many rows went, of all that is kept for a time."""
    pruned = await prune_history(state, keep.history_days, limit)
    pruned += await dead.forget(keep.message_days, limit)
    async with data.statement() as tx:
        return pruned + await alerts_read.forget_alerts(tx, keep.alert_days, limit)


async def prune_history(state: Database, keep_days: float, limit: int = 10_000) -> int:
    """How many rows went. Nothing that is alive, or that a current partition came from."""
    pruned = 0
    for what in history.FORGET:
        async with state.statement() as tx:
            pruned += await history.forget(tx, what, keep_days, limit)
    return pruned
