"""④ A list of addresses that comes block by block, such as a factory's children, is read from its
first block up to the task's last one: contracts of earlier blocks go on emitting logs.

It wakes its job. Whichever of the logs and the list changes, the other is read in the same blocks,
so that what was decoded before the list got there is decoded again; and so is every later partition
that was decoded without the change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from trace_platform.dispatcher.freshness.fit_ranges import own_versions
from trace_platform.domain.block_range import MAX_BLOCK, BlockRange
from trace_platform.domain.freshness import Change, Given, hull, is_after, range_of
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.operators.decode.stored_names import address_input
from trace_platform.state import partitions, tasks
from trace_platform.state.task_rows import ClaimedTask

# By generation and input: what wakes it now.
Wakes = Mapping[UUID, Mapping[int, Given]]
_ROWS = 0
_WHOLE: Given = {"whole": True}
# Once: a part of it is not spread again.
_SPREAD: Given = {"widened": True}


async def spread_lists(tx: Tx, claimed: Sequence[ClaimedTask], wakes: Wakes) -> list[ClaimedTask]:
    """Before ranges are fitted to what is committed: a change of a list is one of all that was
    decoded behind it. Each of these partitions has a task of its own."""
    return [await _spread(tx, task, wakes[task.generation_id]) for task in claimed]


async def _spread(tx: Tx, task: ClaimedTask, wakes: Mapping[int, Given]) -> ClaimedTask:
    index = address_input(task.operator, task.config)
    if index is None or index not in wakes:
        return task
    found: list[Given] = []
    for given in task.inputs:
        if given["input_index"] == index and "start" in given and not given.get("widened"):
            parts = [given | _part(span) | _SPREAD for span in await _stale(tx, task, given)]
            await tasks.split(tx, task.id, [[part] for part in parts])
            given = given | _SPREAD
        found.append(given)
    return replace(task, inputs=found)


async def _stale(tx: Tx, task: ClaimedTask, given: Given) -> list[BlockRange]:
    """Partitions behind a change of the list that were made without it. All outputs have the
    same."""
    change = Change.of(given)
    later = BlockRange(given["end"] + 1, MAX_BLOCK)
    current = await partitions.within(tx, own_versions(task)[0], later)
    return [
        each.span
        for each in current
        if each.span is not None and not any(is_after(read, change) for read in each.made_of)
    ]


def read_lists(claimed: Sequence[ClaimedTask], wakes: Wakes) -> list[ClaimedTask]:
    """Once the ranges of tasks are settled."""
    return [_with_list(task, wakes[task.generation_id]) for task in claimed]


def _with_list(task: ClaimedTask, wakes: Mapping[int, Given]) -> ClaimedTask:
    index = address_input(task.operator, task.config)
    ranges = [
        span
        for given in task.inputs
        if given.get("trigger", True) and (span := range_of(given)) is not None
    ]
    if index is None or index not in wakes or not ranges:
        return task
    blocks = hull(ranges)
    read = [_read(index, wakes[index], BlockRange(0, blocks.end)) | _WHOLE]
    if _ROWS in wakes and not any(given["input_index"] == _ROWS for given in task.inputs):
        read.append(_read(_ROWS, wakes[_ROWS], blocks))
    return replace(task, inputs=[*task.inputs, *read])


def _read(index: int, version: Given, span: BlockRange) -> Given:
    own: Given = {"input_index": index, "trigger": False}
    return version | own | _part(span)


def _part(span: BlockRange) -> Given:
    return {"partition_key": span.key, "start": span.start, "end": span.end}
