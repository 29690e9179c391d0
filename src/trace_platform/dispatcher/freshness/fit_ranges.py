"""④ The ranges of a task that starts are fitted to what its job has committed.

What others have read since the change is not done again. A partition that a range cuts is done as a
whole, for it is replaced as a whole. Of several ranges that others' partitions lie between, one
group stays with the task and each of the others gets one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast
from uuid import UUID

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.freshness import (
    Change,
    Given,
    Partition,
    hull,
    left_of,
    overlap,
    range_of,
    ranges_of,
)
from trace_platform.domain.merge_ranges import merge_ranges
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import partitions, tasks
from trace_platform.state.task_rows import ClaimedTask

# What an input says of the change that woke the task.
_OF_WAKES = ("changed_at", "invalidation", "replaces")
# By input, the ranges of it that are read.
Ranges = dict[int, list[BlockRange]]


@dataclass(frozen=True, slots=True)
class Whole:
    """What is read together: the ranges, and the one that they and all that they cut lie in."""

    span: BlockRange
    ranges: Ranges


async def fit_ranges(
    tx: Tx, claimed: Sequence[ClaimedTask], wakes: Mapping[UUID, Mapping[int, Given]]
) -> list[ClaimedTask]:
    """Before what is only read is added. By generation and input: what wakes it now."""
    spans = [hull(_spans(given)) if (given := _ranged(task)) else None for task in claimed]
    asked = [
        (n, version, span)
        for n, (task, span) in enumerate(zip(claimed, spans, strict=True))
        if span is not None
        for version in own_versions(task)
    ]
    # Where nothing is committed, which is the rule, there is nothing to fit: asked of all at once.
    together: dict[UUID, BlockRange] = {}
    for _, version, span in asked:
        together[version] = hull([span, together.get(version, span)])
    fitted = list(claimed)
    if not await partitions.touched(tx, [(0, *each) for each in together.items()]):
        return fitted
    for n in await partitions.touched(tx, asked):
        fitted[n] = await _fit(tx, fitted[n], wakes[fitted[n].generation_id])
    return fitted


def _ranged(task: ClaimedTask) -> list[Given]:
    return [given for given in task.inputs if "start" in given]


async def _fit(tx: Tx, task: ClaimedTask, wakes: Mapping[int, Given]) -> ClaimedTask:
    left = [part for change in _changes(task) for part in await _left(tx, task, change)]
    unranged = [each for each in task.inputs if "start" not in each]
    if not left:
        # Others hold all of it: its commit says so, or what else woke it is done alone.
        return replace(task, inputs=unranged or task.inputs)
    wholes = [await _whole(tx, task, merged.span, wakes) for merged in merge_ranges(left)]
    first, *others = await _groups(tx, task, _joined(wholes))
    if others:
        parts = [_inputs(task.inputs, group, wakes) for group in others]
        await tasks.split(tx, task.id, parts)
    return replace(task, inputs=_inputs(task.inputs, first, wakes) + unranged)


def _changes(task: ClaimedTask) -> list[Change]:
    """What is appended to is never taken for done: its rows come from more than one reading."""
    found = [Change.of(given) for given in _ranged(task)]
    return found if task.append is None else [replace(c, changed_at=None) for c in found]


async def _left(tx: Tx, task: ClaimedTask, change: Change) -> list[BlockRange]:
    """What of a change is still to be read, as one range."""
    assert change.span is not None, "only ranges are fitted"
    left = left_of(change, await _current(tx, task, change.span))
    return [hull(left)] if left else []


async def _whole(tx: Tx, task: ClaimedTask, span: BlockRange, wakes: Iterable[int]) -> Whole:
    """The range with all of each partition that it cuts, as their makers read it."""
    woken = {each["input_index"] for each in _ranged(task) if overlap(range_of(each), span)}
    ranges: Ranges = {index: [span] for index in woken}
    while True:
        current = [each for output in await _current(tx, task, span) for each in output]
        wider = hull([span, *(each.span for each in current if each.span is not None)])
        for partition in current:
            asked = ranges_of(partition, woken, set(wakes), several=task.takes_several)
            for index, read in asked:
                ranges.setdefault(index, []).append(read)
        if wider == span:
            return Whole(span, ranges)
        # Of another output it may cut others now.
        span = wider


def _joined(wholes: Sequence[Whole]) -> list[Whole]:
    """In order; those that overlap or touch are one."""
    return [
        _one(wholes[n] for n in merged.members)
        for merged in merge_ranges([whole.span for whole in wholes])
    ]


def _one(wholes: Iterable[Whole]) -> Whole:
    together = list(wholes)
    ranges: Ranges = {}
    for whole in together:
        for index, read in whole.ranges.items():
            ranges.setdefault(index, []).extend(read)
    return Whole(hull([whole.span for whole in together]), ranges)


async def _groups(tx: Tx, task: ClaimedTask, wholes: Sequence[Whole]) -> list[Whole]:
    """Those that nothing which is committed lies between: one partition may hold them."""
    groups = [wholes[0]]
    for following in wholes[1:]:
        gap = BlockRange(groups[-1].span.end + 1, following.span.start - 1)
        if await partitions.touched(tx, [(0, version, gap) for version in own_versions(task)]):
            groups.append(following)
        else:
            groups[-1] = _one([groups[-1], following])
    return groups


def _inputs(given: Sequence[Given], whole: Whole, wakes: Mapping[int, Given]) -> list[Given]:
    return [
        _input(given, index, merged.span, wakes)
        for index, ranges in sorted(whole.ranges.items())
        for merged in merge_ranges(ranges)
    ]


def _input(
    given: Sequence[Given], index: int, span: BlockRange, wakes: Mapping[int, Given]
) -> Given:
    """A range of an input, for all that woke the task in it: as new as the newest of that."""
    own = [each for each in given if each["input_index"] == index and "start" in each]
    inside = [each for each in own if overlap(range_of(each), span)]
    facts: Given = {"partition_key": span.key, "start": span.start, "end": span.end}
    if all("changed_at" in each for each in inside):
        facts["changed_at"] = max((each["changed_at"] for each in inside), default=0)
    if invalidations := [each["invalidation"] for each in inside if "invalidation" in each]:
        facts["invalidation"] = invalidations[0]
    if replacing := [each["replaces"] for each in inside if "replaces" in each]:
        facts["replaces"] = replacing[0]
    return (_without_wake(own[0]) if own else wakes[index]) | {"input_index": index} | facts


def _without_wake(given: Given) -> Given:
    return cast(Given, {k: v for k, v in given.items() if k not in _OF_WAKES})


def _spans(given: Sequence[Given]) -> list[BlockRange]:
    return [span for each in given if (span := range_of(each)) is not None]


def own_versions(task: ClaimedTask) -> list[UUID]:
    """Of its outputs. What others write as well was made of something else."""
    return [UUID(output["dataset_version"]) for output in task.outputs if not output.get("shared")]


async def _current(tx: Tx, task: ClaimedTask, span: BlockRange) -> list[list[Partition]]:
    return [await partitions.within(tx, version, span) for version in own_versions(task)]
