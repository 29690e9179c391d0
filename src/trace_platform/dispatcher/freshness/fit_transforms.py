"""④ What a task of a transform reads, as its `mode` says: whole buckets, all of its inputs, or the
range of each of them that belongs to the range that woke it.

It is settled before anything is compared with what is committed. A change of an input is thereby a
change of whole buckets, also of those that read the changed rows around them: which partitions hold
it is found out as for any other change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from trace_platform.domain.block_range import MAX_BLOCK, BlockRange
from trace_platform.domain.freshness import Given, hull, overlap, range_of
from trace_platform.domain.merge_ranges import merge_ranges
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.operators.transform.mode import WHOLE, Around, Window, moves
from trace_platform.state import tasks
from trace_platform.state.task_rows import ClaimedTask

# By generation and input: what wakes it now.
Wakes = Mapping[UUID, Mapping[int, Given]]

# Tasks that one becomes; of more buckets each has several, and becomes several itself.
_PARTS = 1_000
_ALONE = Around(0, 0)
_WIDENED: Given = {"widened": True}


async def fit_transforms(tx: Tx, claimed: Sequence[ClaimedTask], wakes: Wakes) -> list[ClaimedTask]:
    """Before ranges and keys are fitted to what is committed."""
    return [await _fitted(tx, task, wakes[task.generation_id]) for task in claimed]


async def _fitted(tx: Tx, task: ClaimedTask, wakes: Mapping[int, Given]) -> ClaimedTask:
    how = moves(task.operator, task.config)
    if how is None:
        return task
    if how.mode == "full":
        return replace(task, inputs=_whole(task.inputs, wakes))
    if how.window is not None:
        return replace(task, inputs=await _buckets(tx, task, how.window))
    return task


def read_around(claimed: Sequence[ClaimedTask], wakes: Wakes) -> list[ClaimedTask]:
    """Behind what is only read: the same blocks of the inputs that did not wake the task this time,
    and of each what lies around them."""
    return [_with_around(task, wakes[task.generation_id]) for task in claimed]


def _with_around(task: ClaimedTask, wakes: Mapping[int, Given]) -> ClaimedTask:
    how = moves(task.operator, task.config)
    woken = [given for given in task.inputs if given.get("trigger", True)]
    ranges = [span for given in woken if (span := range_of(given)) is not None]
    if how is None or how.mode == "full" or not ranges:
        return task
    if how.window is not None:
        woken = [given | _WIDENED if "start" in given else given for given in woken]
    also = [
        given | _part(_around(hull(ranges), how.window, given["input_index"]))
        for given in _readable(task.inputs, wakes)
    ]
    return replace(task, inputs=woken + [given for given in also if not _is_among(given, woken)])


def _whole(inputs: Sequence[Given], wakes: Mapping[int, Given]) -> list[Given]:
    """All of each input that wakes the job, however little of it changed. A tick stays a tick."""
    ticks = [given for given in inputs if "tick" in given]
    changed = [given for given in inputs if "tick" not in given]
    if not changed:
        return ticks
    indexes = sorted(wakes.keys() - {given["input_index"] for given in ticks})
    return ticks + [_all_of(index, wakes[index], changed) for index in indexes]


def _all_of(index: int, version: Given, changed: Sequence[Given]) -> Given:
    part: Given = {"input_index": index, "partition_key": WHOLE, "whole": True}
    return version | part | _news([given for given in changed if given["input_index"] == index])


def _news(changed: Sequence[Given]) -> Given:
    """What several changes of one input are together. Without one, any reading of it will do."""
    facts: Given = {}
    if all("changed_at" in given for given in changed):
        facts["changed_at"] = max((given["changed_at"] for given in changed), default=0)
    if invalid := [given["invalidation"] for given in changed if given.get("invalidation")]:
        facts["invalidation"] = invalid[0]
    if any(given.get("replaces") for given in changed):
        facts["replaces"] = True
    return facts


async def _buckets(tx: Tx, task: ClaimedTask, window: Window) -> list[Given]:
    """The first bucket's inputs; each of the others has a task of its own."""
    ranged = [_widened(given, window) for given in task.inputs if "start" in given]
    if not ranged:
        return task.inputs
    first, *others = _parts([_span(given) for given in ranged], window.bucket_blocks)
    if others:
        await tasks.split(tx, task.id, [_within(ranged, part) for part in others])
    return _within(ranged, first) + [given for given in task.inputs if "start" not in given]


def _widened(given: Given, window: Window) -> Given:
    """To the borders of all buckets whose rows it is among. Once: what is read around a bucket is
    not what it is made for."""
    if given.get("widened"):
        return given
    around, every = window.around(given["input_index"]), window.bucket_blocks
    start = max(given["start"] - around.after, 0) // every * every
    end = ((given["end"] + around.before) // every + 1) * every - 1
    return given | _part(BlockRange(start, min(end, MAX_BLOCK))) | _WIDENED


def _parts(spans: Sequence[BlockRange], every: int) -> Iterator[BlockRange]:
    """Whole buckets, in order: each by itself, or several together where they are very many."""
    wholes = [merged.span for merged in merge_ranges(spans)]
    buckets = sum(-(-len(whole) // every) for whole in wholes)
    step = every * -(-buckets // _PARTS)
    for whole in wholes:
        for start in range(whole.start, whole.end + 1, step):
            yield BlockRange(start, min(start + step - 1, whole.end))


def _within(ranged: Sequence[Given], part: BlockRange) -> list[Given]:
    """Of each input one, for all that changed of it there."""
    found: list[Given] = []
    for index in sorted({given["input_index"] for given in ranged}):
        inside = [
            given
            for given in ranged
            if given["input_index"] == index and overlap(_span(given), part) is not None
        ]
        if inside:
            found.append(_without_news(inside[0]) | _part(part) | _news(inside))
    return found


def _without_news(given: Given) -> Given:
    own = given.copy()
    own.pop("changed_at", None)
    own.pop("invalidation", None)
    own.pop("replaces", None)
    return own


def _readable(inputs: Sequence[Given], wakes: Mapping[int, Given]) -> Iterator[Given]:
    """Each input once: those that wake the job, and those that are only read."""
    for index, version in sorted(wakes.items()):
        part: Given = {"input_index": index, "trigger": False}
        yield version | part
    yield from (given for given in inputs if not given.get("trigger", True))


def _around(blocks: BlockRange, window: Window | None, index: int) -> BlockRange:
    around = window.around(index) if window is not None else _ALONE
    return BlockRange(
        max(blocks.start - around.before, 0), min(blocks.end + around.after, MAX_BLOCK)
    )


def _part(span: BlockRange) -> Given:
    return {"partition_key": span.key, "start": span.start, "end": span.end}


def _span(given: Given) -> BlockRange:
    return BlockRange(given["start"], given["end"])


def _is_among(given: Given, woken: Sequence[Given]) -> bool:
    return any(
        (each["input_index"], each.get("start"), each.get("end"))
        == (given["input_index"], given["start"], given["end"])
        for each in woken
    )
