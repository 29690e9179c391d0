"""What was lost, by whatever accident, is found: a committed partition whose event is not on record
gets it, and an event that a generation should have been given and was not is owed to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

import structlog

from trace_platform.drivers.postgres.database import Database
from trace_platform.state import datasets, events, generations, locks, staleness

log = structlog.get_logger()

# Looked at in one statement, which costs what their inputs hold now.
_AT_ONCE = 20


async def reconcile_partitions(state: Database, limit: int = 1000) -> int:
    """How many events were missing. Recorded and owed as usual, they are routed as usual."""
    async with state.transaction() as tx:
        lost = await datasets.lost_events(tx, limit)
        missing = await events.record(tx, lost) if lost else 0
    return missing + await _owe_lost(state)


async def _owe_lost(state: Database) -> int:
    """Looks without the lock of routing, which would stop all routing as long as the look takes.

    It needs none: the statement sees one moment, and whoever routes sets `routed_at`, gives up what
    the outbox owed and writes what was given in one transaction, as whoever changes subscriptions
    owes what follows from that in his. So what is routed, not owed and not given at one moment was
    lost before it. Only then, which is never when nothing went wrong, is the lock taken: what
    `owe_missing` finds must not be routed meanwhile, or it would be given twice.
    """
    async with state.transaction() as tx:
        fed = await staleness.fed(tx)
    owed = 0
    for some in _pieces(fed):
        async with state.transaction() as tx:
            found = await staleness.of_generations(tx, some)
        short = [each.generation_id for each in found.values() if each.lost]
        if short:
            owed += await _owe(state, short)
    return owed


async def _owe(state: Database, generation_ids: Sequence[UUID]) -> int:
    async with state.transaction() as tx:
        await locks.routing(tx)
        # Looked at again: a deploy may have changed who is given what, and owed it.
        found = await staleness.of_generations(tx, generation_ids)
        short = [each.generation_id for each in found.values() if each.lost and not each.held]
        given = await generations.owe_missing(tx, short) if short else {}
    for generation_id, count in given.items():
        log.warning("events_were_not_given", generation=str(generation_id), events=count)
    return sum(given.values())


def _pieces(ids: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
