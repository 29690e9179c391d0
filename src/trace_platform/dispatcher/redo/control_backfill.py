"""A user pauses, resumes or cancels a backfill. Said twice, it is done once."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from trace_platform.dispatcher.redo.show_backfill import as_status, no_backfill
from trace_platform.domain.errors import Conflict
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import backfills
from trace_platform.state.backfills import LockedBackfill
from trace_platform.wire.backfill import BackfillAction

Verb = Literal["pause", "resume", "cancel"]

_BECOMES = {"pause": "Paused", "resume": "Running", "cancel": "Canceled"}


async def control_backfill(
    state: Database, org_id: UUID, backfill_id: UUID, verb: Verb
) -> BackfillAction:
    """Paused: no more tasks are made, those that are there end. Canceled: those that wait are
    canceled at once, those that run with their next heartbeat. Raise Conflict for one that ended
    another way."""
    async with state.transaction() as tx:
        found = await backfills.lock(tx, org_id, backfill_id)
        if found is None:
            raise no_backfill(backfill_id)
        changed = found.status != _BECOMES[verb]
        if changed:
            await _change(tx, found, verb)
        row = await backfills.get(tx, org_id, backfill_id)
        assert row is not None, "it was just locked"
    return BackfillAction(changed=changed, backfill=as_status(row))


async def _change(tx: Tx, found: LockedBackfill, verb: Verb) -> None:
    if found.status not in ("Running", "Paused"):
        raise Conflict(f"backfill {found.id} has ended already: {found.status}")
    if verb == "cancel":
        await backfills.finish(tx, found.id, "Canceled", "a user canceled it")
        await backfills.cancel_tasks(tx, found.id)
    else:
        await backfills.set_status(tx, found.id, "Paused" if verb == "pause" else "Running")
