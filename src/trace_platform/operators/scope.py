"""What a task is about: the block range that woke it, and where it writes."""

from __future__ import annotations

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators.contract import TaskContext
from trace_platform.wire.task import TaskOutput


def block_range(task: TaskContext) -> BlockRange:
    """The range of the task's only input."""
    if len(task.inputs) != 1:
        raise InvalidConfig(f"the operator takes one input, this task has {len(task.inputs)}")
    start, end = task.inputs[0].start, task.inputs[0].end
    if start is None or end is None:
        raise InvalidConfig(
            "the operator needs a block range as input",
            hint="feed it from a source or a range_splitter, whose events have start and end",
        )
    return BlockRange(start, end)


def output(task: TaskContext, index: int) -> TaskOutput:
    """By index: an output's name is the job's own."""
    for found in task.outputs:
        if found.output_index == index:
            return found
    raise InvalidConfig(
        f"the job does not declare output {index}", hint="add it to the job's outputs"
    )
