"""What nobody committed is deleted from the object store; what anybody committed, never.

Twice: the attempts that ended without success, as soon as they are certainly over, and everything
that lies in the store, a piece at a time, so that also what a dead worker wrote after its attempt
was swept is found. judge_garbage.py says what may go.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from trace_platform.dispatcher.storage.judge_garbage import Due, judge_garbage, left_by
from trace_platform.dispatcher.storage.walk_store import delete_file, files_below, walk
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import garbage
from trace_platform.wire.dataset import Garbage, GarbageItem

log = structlog.get_logger()

# Places that are looked at with one question to the database.
_TOGETHER = 500
# Attempts that one dispatcher sweeps at a time, and how long nobody else does.
_SWEPT = 100
_SWEEP_S = 600.0


@dataclass(frozen=True, slots=True)
class Collecting:
    """Where to look, and how long ago an attempt has to have ended: longer than a worker that
    lost its task takes to notice."""

    state: Database
    store: ObjectStore
    bucket: str
    scratch_bucket: str
    grace_s: float = 900.0


async def collect_garbage(
    services: Collecting, every_s: float, limit: int = 10_000
) -> list[GarbageItem]:
    """One round: what ended badly, then the next piece of the walk unless another dispatcher took
    one less than `every_s` ago. What was deleted."""
    deleted = await sweep_attempts(services)
    async with services.state.transaction() as tx:
        position = await garbage.take_walk(tx, every_s)
    if position is None:
        return deleted
    found = await collect_after(services, position, limit=limit)
    async with services.state.transaction() as tx:
        await garbage.walked_to(tx, found.next or "")
    for place in found.unknown:
        log.warning("unknown_objects", place=place)
    return deleted + found.items


async def sweep_attempts(services: Collecting) -> list[GarbageItem]:
    """Delete what attempts staged that ended without success. Safe in several dispatchers."""
    async with services.state.transaction() as tx:
        await garbage.close_late(tx, services.grace_s)
    deleted: list[GarbageItem] = []
    swept = _SWEPT
    while swept == _SWEPT:
        async with services.state.transaction() as tx:
            attempts = await garbage.due_leftovers(tx, services.grace_s, _SWEPT, _SWEEP_S)
            left = await left_by(
                tx, services.bucket, services.scratch_bucket, attempts, services.grace_s
            )
        # The store may be slow, and no transaction waits for it. Forgotten after it is deleted: a
        # crash here repeats the deletion.
        for due in left:
            due.there = await asyncio.to_thread(files_below, services.store, due.place)
            deleted += await _delete(services, due, dry_run=False)
        async with services.state.transaction() as tx:
            await garbage.forget_leftovers(tx, attempts)
        swept = len(attempts)
    return deleted


async def collect_after(
    services: Collecting, after: str, *, dry_run: bool = False, limit: int = 10_000
) -> Garbage:
    """Delete what is garbage among the next places of the walk, or only say what is."""
    places, position = await asyncio.to_thread(
        walk, services.store, services.bucket, services.scratch_bucket, after, limit
    )
    items: list[GarbageItem] = []
    unknown: set[str] = set()
    for first in range(0, len(places), _TOGETHER):
        together = places[first : first + _TOGETHER]
        judged = await judge_garbage(services.state, services.store, together, services.grace_s)
        unknown |= judged.unknown
        for due in judged.due:
            items += await _delete(services, due, dry_run=dry_run)
    return Garbage(items=items, unknown=sorted(unknown), places=len(places), next=position or None)


async def _delete(services: Collecting, due: Due, *, dry_run: bool) -> list[GarbageItem]:
    if not due.gone:
        return []
    if not dry_run:
        await asyncio.to_thread(_delete_now, services.store, due)
    item = GarbageItem(
        place=due.place,
        why=due.why,
        objects=len(due.gone),
        bytes=sum(file.bytes for file in due.gone),
    )
    if not dry_run:
        log.info("garbage_deleted", **item.model_dump())
    return [item]


def _delete_now(store: ObjectStore, due: Due) -> None:
    if due.files is None:
        store.delete_prefix(due.place)
        return
    for file in due.files:
        delete_file(store, due.place, file)
