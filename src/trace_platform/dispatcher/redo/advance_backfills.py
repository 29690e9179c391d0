"""Backfills go on: where some tasks ended, others follow, until all inputs were worked through.

So few tasks at once that a pause or a cancellation acts quickly and what lies downstream is not
flooded.
"""

from __future__ import annotations

from typing import Literal
from uuid import UUID

import structlog

from trace_platform.dag.model.dag import PRIORITY_RANK
from trace_platform.dispatcher.redo.plan_backfill import inputs_per_task
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import backfills, locks, scopes
from trace_platform.state.backfills import HeldBackfill

log = structlog.get_logger()

LOW = PRIORITY_RANK["low"]
# Looked at in one go: what became up to date meanwhile is passed over quickly.
LOOK = 200


async def advance_backfills(state: Database) -> int:
    """How many got tasks, or ended. Safe in several dispatchers at once."""
    async with state.transaction() as tx:
        alive = await backfills.alive(tx)
    changed = 0
    for backfill_id in alive:
        async with state.transaction() as tx:
            await locks.share_routing(tx)
            changed += await advance_held(tx, backfill_id)
    return changed


async def advance_held(tx: Tx, backfill_id: UUID) -> bool:
    """Whether anything changed. What is routed where stays so until the transaction ends."""
    backfill = await backfills.hold(tx, backfill_id)
    if backfill is None:
        return False
    if backfill.job_id is None:
        # Its tasks are superseded: they commit nothing any more.
        return await _end(tx, backfill, "Canceled", "a deploy took the place of what it filled")
    # While a rebuild is under way, what would be made now would give way soon.
    if backfill.status == "Paused" or backfill.rebuilt:
        return False
    given = await _top_up(tx, backfill, backfill.job_id)
    if given or backfill.done_events < backfill.inputs:
        return bool(given)
    if await backfills.in_flight(tx, backfill_id):
        return False
    return await _end(tx, backfill, "Completed", None)


async def _top_up(tx: Tx, backfill: HeldBackfill, job_id: UUID) -> int:
    """How many inputs were gone through: given to tasks, or up to date by now."""
    room = backfill.max_in_flight - await backfills.in_flight(tx, backfill.id)
    left = backfill.inputs - backfill.done_events
    if room <= 0 or left <= 0:
        return 0
    per_task = inputs_per_task(await backfills.strategy(tx, job_id))
    most = room * per_task
    events = await backfills.next_events(tx, backfill.id, min(max(most, LOOK), left))
    states = await scopes.states(tx, backfill.generation_id, events)
    gone = 0
    due: list[int] = []
    for event_id in events:
        # One that is forgotten, or that somebody else has done since, needs no task.
        if event_id in states and (backfill.force or states[event_id] == "due"):
            if len(due) == most:
                break
            due.append(event_id)
        gone += 1
    if due:
        await scopes.redo(
            tx,
            backfill.generation_id,
            due,
            f"#backfill:{backfill.id}",
            rank=LOW,
            backfill_id=backfill.id,
        )
    await backfills.advance(tx, backfill.id, gone)
    return gone


async def _end(
    tx: Tx, backfill: HeldBackfill, status: Literal["Completed", "Canceled"], because: str | None
) -> bool:
    await backfills.finish(tx, backfill.id, status, because)
    log.info(
        "backfill_ended",
        backfill=str(backfill.id),
        job=f"{backfill.dag_name}.{backfill.job_name}",
        status=status,
        reason=because,
    )
    return True
