"""What ended long ago is forgotten, a little at a time: no table grows for ever."""

from __future__ import annotations

from trace_platform.dispatcher.purge_generation import finish_purges
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import history


async def prune_history(
    state: Database,
    keep_days: float,
    limit: int = 10_000,
    store: ObjectStore | None = None,
    bucket: str = "",
    data: Database | None = None,
) -> int:
    """How many rows went. Nothing that is alive, or that a current partition came from. With a
    store, also what an interrupted purge left."""
    pruned = 0
    for forget in (
        history.forget_tasks,
        history.forget_events,
        history.forget_buffers,
        history.forget_correlations,
        history.forget_invalidations,
        history.forget_backfills,
        history.forget_workers,
        history.forget_queries,
        history.forget_pii_access,
    ):
        async with state.statement() as tx:
            pruned += await forget(tx, keep_days, limit)
    if store is not None:
        pruned += await finish_purges(state, store, bucket, data)
    return pruned
