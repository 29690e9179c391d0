"""What began and ended is told to whoever collects lineage: in order, and again when nobody takes
it."""

from __future__ import annotations

import msgspec
import structlog

from trace_platform.dispatcher.openlineage.describe_runs import (
    KnownLineage,
    Place,
    describe_runs,
)
from trace_platform.dispatcher.openlineage.pending_runs import PendingRuns
from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview

log = structlog.get_logger()

_TOGETHER = 200
_encode = msgspec.json.Encoder().encode


async def tell_runs(
    state: Database, place: Place, pending: PendingRuns, known: KnownLineage
) -> int:
    """How many events were taken. Raise Unavailable when nobody takes them: they stay."""
    if not pending.encoded:
        await _encode_next(state, place, pending, known)
    if not pending.encoded:
        return 0
    taken = await pending.sink.send(pending.encoded)
    pending.encoded = pending.encoded[taken:]
    return taken


async def _encode_next(
    state: Database, place: Place, pending: PendingRuns, known: KnownLineage
) -> None:
    notes = pending.first(_TOGETHER)
    if not notes:
        return
    dropped = pending.dropped
    try:
        async with overview.snapshot(state) as tx:
            events = await describe_runs(tx, place, notes, known)
    except Unavailable:
        raise
    except Exception:
        # The same notes would fail again, and hold up all that come after them.
        log.exception("runs_not_told", attempts=len(notes))
        pending.drop(len(notes))
        return
    # Too many may have come meanwhile: the oldest, these among them, are gone by then.
    pending.told(max(len(notes) - (pending.dropped - dropped), 0))
    pending.encoded = [_encode(event) for event in events]
