"""What changes, told as it happens, to one who tells all others.

Nothing is written down for it: what there is is read now and then, and compared with what was there
before. It costs nothing while nobody follows, and as much for one page as for a hundred.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

from trace_platform.data import alerts_read
from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import changes
from trace_platform.state.changes import There
from trace_platform.wire.changes import Change, Changes, Kind

LOOK_S = 0.2
# Every so many looks: what costs more to look at; and a word that nothing has changed.
_MORE, _SAY = 5, 25
# Of one kind at once: beyond that it is said of the kind alone.
_MOST = 100
_ALERTS = "alert"
# What the parts of a look are about; being gone is no change of what is only the newest.
_KINDS: dict[str, Kind] = {
    "running task": "task",
    "new task": "task",
    "running job": "job",
    "new job": "job",
    "waiting job": "job",
    "held job": "job",
    "dataset": "dataset",
    "reported head": "head",
    "emitted head": "head",
    "active dag": "dag",
    "building dag": "dag",
    "deployed dag": "dag",
    "backfill": "backfill",
    "invalidation": "invalidation",
    _ALERTS: "alert",
}
_NEWEST = ("new task", "new job", "deployed dag")


async def follow_changes(
    state: Database, data: Database, org_id: UUID, stopping: asyncio.Event
) -> AsyncIterator[Changes]:
    """The first item says that the look has begun, empty ones that it goes on. It ends with
    `stopping`, and when a database is away: what happened meanwhile is not known."""
    seen: There = {}
    looks = 0
    with contextlib.suppress(Unavailable):
        while not stopping.is_set():
            now = await _look(state, data, org_id, more=looks % _MORE == 0)
            found = list(_changed(seen, now)) if looks else []
            seen |= now
            if found or looks % _SAY == 0:
                yield Changes(changes=found)
            looks += 1
            await _pause(stopping)


async def _look(state: Database, data: Database, org_id: UUID, *, more: bool) -> There:
    async with state.transaction() as tx:
        found = await changes.all_but_queues(tx, org_id)
        if more:
            found |= await changes.queues(tx, org_id)
    if more:
        # People ask about alerts; what they are about goes on without them.
        with contextlib.suppress(Unavailable):
            async with data.transaction() as tx:
                found[_ALERTS] = {"": await alerts_read.position(tx)}
    return found


def _changed(before: There, now: There) -> Iterator[Change]:
    found: dict[Kind, set[str]] = defaultdict(set)
    for part, there in now.items():
        was = before.get(part)
        if was is None or was == there:
            continue
        changed = {each for each, is_now in there.items() if was.get(each) != is_now}
        gone = set() if part in _NEWEST else was.keys() - there.keys()
        found[_KINDS[part]] |= changed | gone
    for kind, ids in found.items():
        if len(ids) > _MOST or kind == _ALERTS:
            yield from [Change(kind=kind)] * bool(ids)
        else:
            yield from (Change(kind=kind, id=each) for each in sorted(ids))


async def _pause(stopping: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), LOOK_S)
