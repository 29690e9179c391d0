"""Files that gave way to newer ones of their generation are deleted once they are old or many.

In two steps, so that nobody loses what he reads. First a partition is retired: no new reader of a
moment in the past is given it. Its files go when every query and every attempt that may have been
given it has ended. What is current, in any generation, is never touched: a rollback finds it whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from trace_platform.dispatcher.storage.collect_garbage import Collecting
from trace_platform.dispatcher.storage.walk_store import delete_file, files_below
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.state import superseded
from trace_platform.state.superseded import DuePartition
from trace_platform.wire.dataset import GarbageItem

log = structlog.get_logger()

# Partitions that are retired, and whose files are deleted, at a time.
_TOGETHER = 1_000


@dataclass(frozen=True, slots=True)
class Retention:
    """How long files stay that gave way: so many days, and of one partition the newest so many."""

    superseded_days: float = 30.0
    superseded_versions: int = 100
    # Longer than any query may take that was given a file before it was retired.
    reader_grace_s: float = 7_200.0


async def retire_superseded(services: Collecting, keep: Retention) -> list[GarbageItem]:
    """One round: what was deleted. Safe in several dispatchers; a file is deleted twice at most."""
    async with services.state.transaction() as tx:
        await superseded.retire(
            tx, keep.superseded_days, keep.superseded_versions, limit=10 * _TOGETHER
        )
    deleted: list[GarbageItem] = []
    while True:
        async with services.state.transaction() as tx:
            rows = await superseded.due(tx, keep.reader_grace_s, _TOGETHER)
            kept = await superseded.kept_at(tx, rows)
        # Marked after the files are gone: a crash in between repeats the deletion.
        items = await asyncio.to_thread(_delete, services.store, rows, kept)
        async with services.state.transaction() as tx:
            await superseded.mark_deleted(tx, rows)
        for item in items:
            log.info("garbage_deleted", **item.model_dump())
        deleted += items
        if len(rows) < _TOGETHER:
            return deleted


def _delete(
    store: ObjectStore, rows: Sequence[DuePartition], kept: Mapping[str, set[str]]
) -> list[GarbageItem]:
    by_place: dict[str, dict[str, int]] = {}
    for row in rows:
        files = {file["name"]: file["bytes"] for file in row.files}
        by_place.setdefault(row.location, {}).update(files)
    return [_delete_at(store, place, files, kept) for place, files in by_place.items()]


def _delete_at(
    store: ObjectStore, place: str, files: dict[str, int], kept: Mapping[str, set[str]]
) -> GarbageItem:
    """The whole folder with its seal, unless another partition that stays lies there too."""
    if place not in kept:
        objects, gone = store.delete_prefix(place), sum(files.values())
    else:
        there = [
            file for file in files_below(store, place) if file.name in files.keys() - kept[place]
        ]
        for file in there:
            delete_file(store, place, file)
        objects, gone = len(there), sum(file.bytes for file in there)
    return GarbageItem(place=place, why="superseded", objects=objects, bytes=gone)
