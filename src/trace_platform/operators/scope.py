"""What a task is about: the block range that woke it, what it reads, and where it writes."""

from __future__ import annotations

from collections.abc import Iterable

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.merge_ranges import merge_ranges
from trace_platform.operators.contract import TaskContext
from trace_platform.wire.task import TaskInput, TaskOutput


def block_range(task: TaskContext) -> BlockRange:
    """The range of the only update that woke the task."""
    found = block_ranges(task)
    if len(found) != 1:
        raise InvalidConfig(
            f"the operator takes one block range, and {len(found)} updates woke this task",
            hint="use execution_strategy PerUpdate or PerPartition, and do not coalesce",
        )
    return found[0]


def block_ranges(task: TaskContext) -> list[BlockRange]:
    """The range of each update that woke the task, in their order."""
    waking = [given for given in task.inputs if given.trigger]
    found = ranges(waking)
    if not found or len(found) < len(waking):
        raise InvalidConfig(
            "the operator needs a block range as input",
            hint="feed it from a source or a range_splitter, whose events have start and end",
        )
    return found


def merged_ranges(task: TaskContext) -> list[BlockRange]:
    """The blocks of all updates that woke the task, as few ranges as they make."""
    return [merged.span for merged in merge_ranges(block_ranges(task))]


def inputs(task: TaskContext, index: int) -> list[TaskInput]:
    """All that the task has of one input: several ranges, where one task takes them together."""
    found = [given for given in task.inputs if given.input_index == index]
    if not found:
        raise InvalidConfig(
            f"the job does not declare input {index}", hint="add it to the job's inputs"
        )
    return found


def ranges(given: Iterable[TaskInput]) -> list[BlockRange]:
    """Of those that have one."""
    return [
        BlockRange(each.start, each.end)
        for each in given
        if each.start is not None and each.end is not None
    ]


def output(task: TaskContext, which: int | str) -> TaskOutput:
    """By index where the operator declares its outputs: their names are the job's own."""
    for found in task.outputs:
        if which in (found.output_index, found.name):
            return found
    raise InvalidConfig(
        f"the job does not declare output {which}", hint="add it to the job's outputs"
    )
