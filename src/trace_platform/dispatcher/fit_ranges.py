"""④ The range of a task that starts is fitted to what its job has committed.

What others have read since the change is not done again. A partition that the range cuts is done as
a whole, for it is replaced as a whole. A task of several ranges, which become one partition, reads
what is committed between them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.freshness import (
    Change,
    Partition,
    hull,
    left_of,
    overlap,
    range_of,
    widened,
)
from trace_platform.domain.merge_ranges import gaps
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import partitions

Given = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ranged:
    """A task that is woken by ranges and has outputs: what it could have to take into account."""

    task: Row
    given: list[Given]

    @property
    def span(self) -> BlockRange:
        return hull([span for each in self.given if (span := range_of(each))])

    @property
    def versions(self) -> list[UUID]:
        return [UUID(output["dataset_version"]) for output in self.task["outputs"]]

    @property
    def changes(self) -> list[Change]:
        """What is appended to is never taken for done: its rows come from more than one reading."""
        found = [Change.of(each) for each in self.given]
        appends = self.task["append"] is not None
        return [replace(each, changed_at=None) for each in found] if appends else found


async def fit_ranges(tx: Tx, claimed: Sequence[Row]) -> None:
    """In place, before what is only read is added."""
    ranged = [Ranged(task, given) for task in claimed if (given := _ranges(task))]
    for each in await _touching(tx, ranged):
        await _fit(tx, each)


def _ranges(task: Row) -> list[Given]:
    """The inputs, where all of them are ranges and the task has something to write."""
    given: list[Given] = task["inputs"]
    ranged = bool(task["outputs"]) and all("start" in each for each in given)
    return given if ranged else []


async def _touching(tx: Tx, ranged: Sequence[Ranged]) -> list[Ranged]:
    """Those in whose range something is committed."""
    asked = [(n, version, each.span) for n, each in enumerate(ranged) for version in each.versions]
    return [ranged[n] for n in await partitions.touched(tx, asked)]


async def _fit(tx: Tx, ranged: Ranged) -> None:
    current = await _current(tx, ranged, ranged.span)
    left = [part for change in ranged.changes for part in left_of(change, current)]
    if not left:
        # Its commit says that nothing is left of it.
        return
    span = hull(left) if len(ranged.given) == 1 else ranged.span
    while (wider := widened(span, _all(current))) != span:
        # Of another output it may cut others now.
        span, current = wider, await _current(tx, ranged, wider)
    if len(ranged.given) == 1:
        ranged.task["inputs"] = [_of_span(ranged.given[0], span)]
    else:
        ranged.task["inputs"] = [*ranged.given, *_between(ranged, span, _all(current))]


async def _current(tx: Tx, ranged: Ranged, span: BlockRange) -> list[list[Partition]]:
    return [await partitions.within(tx, version, span) for version in ranged.versions]


def _all(current: Sequence[Sequence[Partition]]) -> list[Partition]:
    return [partition for output in current for partition in output]


def _between(ranged: Ranged, span: BlockRange, current: Sequence[Partition]) -> list[Given]:
    """What is committed in the range and in none of the task's own: read as its makers read it."""
    known = {each["input_index"]: each for each in reversed(ranged.given)}
    own = [change.span for change in ranged.changes if change.span is not None]
    found: dict[tuple[int, BlockRange], Given] = {}
    for partition in current:
        for gap in gaps(overlap(partition.span, span) or span, own):
            for index in _read_by(partition, gap) or known:
                found[index, gap] = _of_span(known.get(index, ranged.given[0]), gap)
    return list(found.values())


def _read_by(partition: Partition, gap: BlockRange) -> set[int]:
    return {read.input_index for read in partition.made_of if overlap(read.span, gap)}


def _of_span(given: Given, span: BlockRange) -> Given:
    return given | {"partition_key": span.key, "start": span.start, "end": span.end}
