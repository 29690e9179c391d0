"""A backfill begins: its inputs are settled now, its tasks come little by little."""

from __future__ import annotations

from uuid import UUID, uuid4

from trace_platform.dispatcher.redo.advance_backfills import advance_held
from trace_platform.dispatcher.redo.plan_backfill import find_due
from trace_platform.dispatcher.redo.show_backfill import as_status
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import Conflict
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import backfills, locks
from trace_platform.state.backfills import ListedBackfill
from trace_platform.wire.backfill import BackfillRequest, BackfillStarted


async def start_backfill(
    state: Database, org_id: UUID, request: BackfillRequest
) -> BackfillStarted:
    """The same request twice is one backfill; one that has nothing to do is none."""
    async with state.transaction() as tx:
        known = await _known(tx, org_id, request)
        if known is not None:
            return BackfillStarted(backfill=as_status(known), new=False)
        # Which generation is current stays so until its first tasks are there.
        await locks.share_routing(tx)
        found = await find_due(tx, org_id, request)
        if not found.due:
            return BackfillStarted(backfill=None, new=False)
        backfill_id = request.request_id or uuid4()
        new = await backfills.begin(
            tx,
            backfill_id,
            found.job,
            BlockRange(request.start, request.end),
            [given.event_id for given in found.due],
            request.max_in_flight,
            force=request.force,
        )
        if new:
            await advance_held(tx, backfill_id)
        started = await backfills.get(tx, org_id, backfill_id)
        if started is None:
            raise Conflict(
                f"request {backfill_id} was made before, for something else",
                hint="make another request_id for another request",
            )
    return BackfillStarted(backfill=as_status(started), new=new)


async def _known(tx: Tx, org_id: UUID, request: BackfillRequest) -> ListedBackfill | None:
    if request.request_id is None:
        return None
    known = await backfills.get(tx, org_id, request.request_id)
    if known is None:
        return None
    fields = ("dag_name", "job_name", "start", "end", "force")
    if any(getattr(known, field) != getattr(request, field) for field in fields):
        raise Conflict(
            f"request {request.request_id} was made before, for something else",
            hint="make another request_id for another request",
        )
    return known
