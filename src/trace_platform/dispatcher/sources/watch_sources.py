"""always_on sources of active versions run, and are started again when they end; schedules begin.

A run is one task for as long as its generation lives: the same id over all restarts. What a user
canceled stays so until it is retried.
"""

from __future__ import annotations

import structlog

from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import locks, sources
from trace_platform.state.sources import DueRun

log = structlog.get_logger()

# An attempt that ran for so long was a good one: the pauses between restarts begin anew.
WELL_S = 600.0


async def watch_sources(state: Database, retry_base_s: float) -> int:
    """How many runs and schedules changed. Safe in several dispatchers at once."""
    async with state.transaction() as tx:
        changed = await sources.begin_ticks(tx)
        due = await sources.due_runs(tx, WELL_S)
    return changed + (await _act(state, retry_base_s) if due else 0)


async def _act(state: Database, retry_base_s: float) -> int:
    async with state.transaction() as tx:
        # A version that gives way at this moment must not get a run that nobody ends.
        await locks.share_routing(tx)
        due = await sources.due_runs(tx, WELL_S)
        changed = sum([await _do(tx, what, due, retry_base_s) for what in _VERBS])
    for run in due:
        if run.due == "wait":
            name = f"{run.dag_name}.{run.job_name}"
            log.warning("source_ended", source=name, task=str(run.run_id), code=run.error_code)
    return changed


_VERBS = ("make", "restart", "wait", "forgive", "adopt")


async def _do(tx: Tx, what: str, due: list[DueRun], retry_base_s: float) -> int:
    runs = [run for run in due if run.due == what]
    if not runs:
        return 0
    if what == "make":
        return await sources.make_runs(tx, runs)
    if what == "restart":
        return await sources.restart_runs(tx, runs)
    if what == "wait":
        return await sources.delay_runs(tx, runs, retry_base_s)
    if what == "forgive":
        return await sources.forgive_runs(tx, runs)
    return await sources.adopt_runs(tx, runs)
