"""What "up to date" means: a partition holds a change when the attempt that made it had read it.

Every change of a generation of a dataset has a position, and an attempt knows from its claim up to
which position it reads each input. Nothing here looks at a clock, or at who was committed first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.merge_ranges import gaps, merge_ranges


class Given(TypedDict, total=False):
    """An input of a task as it is stored: a part of a version of a dataset."""

    input_index: int
    dataset_uuid: str
    dataset_version: str
    # What it is about: a cursor, a partition by its key, or a block range.
    cursor: int
    partition_key: str
    start: int
    end: int
    # Rows that do not match are not this task's.
    where: dict[str, Any]
    # False: it is only read, and woke nobody.
    trigger: bool
    # What woke the task: at which position it changed, whether rows gave way, what was invalid.
    changed_at: int
    replaces: bool
    invalidation: str
    # Up to which position it is read, and of a source that ticks up to which tick.
    read_at: int
    tick: int
    # As workers are told of it.
    table: bool
    files: list[str]
    # Of a transform: all of it is read; its range was widened to whole buckets; what its statements
    # call it; and a file that has its columns, where it has none of its own.
    whole: bool
    widened: bool
    # Of a fold: nothing of it is read, what was made of it in its range is merged.
    merges: bool
    names: list[str]
    columns_of: str | None


class StoredRead(TypedDict, total=False):
    """A `Read` as it is stored."""

    input: int
    version: str
    position: int
    start: int
    end: int
    key: str
    tick: int


# A partition of an input that is no range.
Key = tuple[int, str]
# Not an input: how often the generation was told to do something once more, as a position.
REDONE = -1


@dataclass(frozen=True, slots=True)
class Read:
    """What an attempt had read of one input: the version, the part, and all changes up to here."""

    input_index: int
    version: str
    position: int
    # None: no range, but the partition of a key, or all of it.
    span: BlockRange | None = None
    key: str | None = None
    # Of an input that ticks: the newest tick that the attempt was for.
    tick: int | None = None

    @classmethod
    def of(cls, stored: StoredRead) -> Read:
        start = stored.get("start")
        span = None if start is None else BlockRange(start, stored["end"])
        place = stored["input"], stored["version"], stored["position"]
        return cls(*place, span, stored.get("key"), stored.get("tick"))

    def stored(self) -> StoredRead:
        part: StoredRead = {}
        if self.span is not None:
            part = {"start": self.span.start, "end": self.span.end}
        elif self.key is not None:
            part = {"key": self.key}
        elif self.tick is not None:
            part = {"tick": self.tick}
        own: StoredRead = {
            "input": self.input_index,
            "version": self.version,
            "position": self.position,
        }
        return own | part


@dataclass(frozen=True, slots=True)
class Change:
    """What a task was made for: a part of an input that changed, at this position of its version.

    None: it is to be done whatever was read before. Zero: it was only said to be there, and any
    reading of it will do.
    """

    input_index: int
    version: str
    changed_at: int | None
    span: BlockRange | None = None
    key: str | None = None
    tick: int | None = None

    @classmethod
    def of(cls, given: Given) -> Change:
        return cls(
            given["input_index"],
            given["dataset_version"],
            given.get("changed_at"),
            range_of(given),
            given.get("partition_key"),
            given.get("tick"),
        )


@dataclass(frozen=True, slots=True)
class Partition:
    """One that is current: its range, and what the attempt that made it had read."""

    key: str
    span: BlockRange | None
    made_of: tuple[Read, ...]
    # How far its maker knew of what it did not read.
    knows: tuple[Read, ...] = ()

    def held(self, change: Change) -> list[BlockRange]:
        """The parts of the change's range that were read here after it happened."""
        if self.span is None or change.span is None:
            return []
        own = overlap(self.span, change.span)
        parts = [overlap(own, read.span) for read in self.made_of if is_after(read, change)]
        return [part for part in parts if part is not None]

    def holds_key(self, change: Change) -> bool:
        """Whether all of a change that has no range was read here after it happened."""
        if change.tick is not None:
            return any(_is_answered(read, change) for read in self.made_of)
        return any(
            is_after(read, change) and read.span is None and read.key in (None, change.key)
            for read in self.made_of
        )


def is_after(read: Read, change: Change) -> bool:
    """Whether whoever read this had the change before it, as far as their parts overlap."""
    same = _is_same_version(read, change)
    return same and change.changed_at is not None and read.position >= change.changed_at


def _is_same_version(read: Read, change: Change) -> bool:
    return (read.input_index, read.version) == (change.input_index, change.version)


def _is_answered(read: Read, change: Change) -> bool:
    """Whether this was made for the change's tick, or for a newer one: the ticks themselves say
    which is newer, in whatever order they arrived."""
    if read.tick is None or change.tick is None:
        return False
    same = _is_same_version(read, change)
    is_newer = same and read.tick > change.tick
    return is_newer or (read.tick == change.tick and is_after(read, change))


def is_older(ours: Iterable[Read], theirs: Iterable[Read]) -> bool:
    """Whether they had read, or knew of, a change that we had not."""
    known = {(read.input_index, read.version): read.position for read in ours}
    return any(
        known.get((read.input_index, read.version), _unsaid(read)) < read.position
        for read in theirs
    )


def _unsaid(read: Read) -> int:
    """What it means that we say nothing of it: of an input we cannot be compared; and whoever began
    before anything was asked for once more does not say so."""
    return 0 if read.input_index == REDONE else read.position


def ranges_of(
    partition: Partition, woken: set[int], wakes: set[int], *, several: bool
) -> list[tuple[int, BlockRange]]:
    """What has to be read, by input, to make a partition again: the ranges that its maker read of
    those inputs that can wake the job. Where a task takes one input at a time, a partition that was
    made of another is made of ours. So is one that says nothing.
    """
    assert partition.span is not None, "only ranges have parts"
    parts = [
        (read.input_index, part)
        for read in partition.made_of
        if read.input_index in wakes and (part := overlap(read.span, partition.span))
    ]
    if parts and (several or woken & {index for index, _ in parts}):
        return parts
    return [(index, partition.span) for index in sorted(woken)]


def merges(inputs: Sequence[Given]) -> bool:
    """Whether a task puts together what its job has made, and reads none of its inputs."""
    return any(given.get("merges", False) for given in inputs)


def as_one(partitions: Sequence[Partition]) -> tuple[list[Read], list[Read]]:
    """What partitions that become one were made of, and knew. Of each version it holds what all of
    them hold, the least that one had read: else a change that one lacks would pass for done. It
    knows the most: who had read less than one of them may not replace them all."""
    read: dict[tuple[int, str, str | None, int | None], list[Read]] = {}
    known: dict[tuple[int, str], int] = {}
    for partition in partitions:
        for each in partition.made_of:
            own = each if each.span is None else replace(each, span=_clipped(each, partition))
            if own.span is not None or each.span is None:
                place = each.input_index, each.version, each.key, each.tick
                read.setdefault(place, []).append(own)
        for each in (*partition.made_of, *partition.knows):
            version = each.input_index, each.version
            known[version] = max(each.position, known.get(version, 0))
    made_of = [one for same in read.values() for one in _least(same)]
    return made_of, [Read(*place, position) for place, position in sorted(known.items())]


def _clipped(read: Read, partition: Partition) -> BlockRange | None:
    """Of what was read beside its own range a partition holds nothing."""
    return overlap(read.span, partition.span)


def _least(same: Sequence[Read]) -> list[Read]:
    """Of one version and part."""
    position = min(each.position for each in same)
    spans = [each.span for each in same if each.span is not None]
    if len(spans) < len(same):
        return [replace(same[0], position=position, span=None)]
    return [replace(same[0], position=position, span=each.span) for each in merge_ranges(spans)]


def keys_of(made_of: Iterable[Read], inputs: Container[int]) -> set[Key]:
    """The partitions of these inputs that are no ranges."""
    return {
        (read.input_index, read.key)
        for read in made_of
        if read.span is None and read.key is not None and read.input_index in inputs
    }


def has_read(ours: Iterable[Read], asked: Iterable[tuple[int, BlockRange]]) -> bool:
    """Whether we read all of these ranges."""
    read: dict[int, list[BlockRange]] = {}
    for each in ours:
        if each.span is not None:
            read.setdefault(each.input_index, []).append(each.span)
    return not any(any(gaps(part, read.get(index, []))) for index, part in asked)


def reads_of(inputs: Sequence[Given]) -> list[Read]:
    """What an attempt with these inputs reads; of one version ranges that touch are one."""
    ranges: dict[tuple[int, str, int], list[BlockRange]] = {}
    ticks: dict[tuple[int, str, int], int] = {}
    others: dict[Read, None] = {}
    for given in inputs:
        source = (given["input_index"], given["dataset_version"], given.get("read_at") or 0)
        if (span := range_of(given)) is not None:
            ranges.setdefault(source, []).append(span)
        elif (tick := given.get("tick")) is not None:
            ticks[source] = max(tick, ticks.get(source, tick))
        else:
            others[Read(*source, key=given.get("partition_key"))] = None
    merged = [
        Read(*source, span=each.span)
        for source, spans in ranges.items()
        for each in merge_ranges(spans)
    ]
    return [*merged, *(Read(*source, tick=tick) for source, tick in ticks.items()), *others]


def left_of(change: Change, outputs: Sequence[Sequence[Partition]]) -> list[BlockRange]:
    """The parts of a change's range that some output does not hold yet."""
    assert change.span is not None, "only ranges have parts"
    if not outputs:
        return [change.span]
    return [
        part
        for partitions in outputs
        for part in gaps(change.span, [held for p in partitions for held in p.held(change)])
    ]


def hull(spans: Sequence[BlockRange]) -> BlockRange:
    return BlockRange(min(s.start for s in spans), max(s.end for s in spans))


def overlap(one: BlockRange | None, other: BlockRange | None) -> BlockRange | None:
    if one is None or other is None:
        return None
    start, end = max(one.start, other.start), min(one.end, other.end)
    return BlockRange(start, end) if start <= end else None


def range_of(given: Given) -> BlockRange | None:
    start = given.get("start")
    return None if start is None else BlockRange(start, given["end"])
