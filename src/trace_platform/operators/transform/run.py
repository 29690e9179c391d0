"""One task of a transform: what it is about, its inputs as frames, its outputs as partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, RangeNotReady
from trace_platform.domain.file_ranges import named_range
from trace_platform.operators import frames, scope
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.operators.frames import Frames
from trace_platform.operators.io.parquet_input import BLOCK, footers, rows, within
from trace_platform.operators.transform.fold import Fold, folded
from trace_platform.operators.transform.mode import WHOLE, TransformConfig, Window
from trace_platform.operators.transform.private_session import private_session
from trace_platform.operators.transform.time_buckets import TimeBuckets
from trace_platform.wire.task import OutputCommit, TaskInput, TaskOutput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Reads:
    """What one attempt reads."""

    task: TaskContext
    spark: SparkSession
    data: Frames
    # Which input each name means.
    names: Mapping[str, int]
    # The blocks that the task is about; None: everything.
    blocks: BlockRange | None
    window: Window | None

    def read(self, index: int) -> DataFrame:
        """The rows of an input that the task is to see. Raise RangeNotReady when nothing was ever
        committed to it: nobody knows its columns."""
        rows = self._read(index)
        return rows if self.buckets is None else self.buckets.readable(rows, index)

    @cached_property
    def buckets(self) -> TimeBuckets | None:
        """Those of time that this task makes: known once all inputs were looked at."""
        if self.window is None or self.window.seconds is None or self.blocks is None:
            return None
        indexes = sorted({given.input_index for given in self.task.inputs})
        return TimeBuckets.of({n: self._read(n) for n in indexes}, self.window, self.blocks)

    def _read(self, index: int) -> DataFrame:
        given = scope.inputs(self.task, index)
        if given[0].table and self.blocks is None:
            return self.data.read(index, blocks=self._all_of_table(index, given))
        if given[0].table or any(each.files for each in given):
            # Buckets are cut without regard to where a chain was first followed.
            return self.data.read(index, may_begin_within=self.window is not None)
        file = next((each.columns_of for each in given if each.columns_of), None)
        if file is None:
            raise _holds_nothing(index)
        found = footers([file], self.task.store, f"input {index}")
        return rows(found, (), self.spark, self.task.store, f"input {index}").limit(0)

    def _all_of_table(self, index: int, given: Sequence[TaskInput]) -> BlockRange:
        """What the table holds, and what has left it for files."""
        extent = self.data.extent(index)
        if extent.first_block is None or extent.last_block is None:
            raise _holds_nothing(index)
        files = [held for each in given for uri in each.files if (held := named_range(uri))]
        first = min([extent.first_block, *(held.start for held in files)])
        return BlockRange(first, extent.last_block)


def _holds_nothing(index: int) -> RangeNotReady:
    return RangeNotReady(
        f"input {index} holds nothing yet",
        hint="another attempt reads it once something was committed to it",
    )


# The rows of each output, by its name.
Make = Callable[[Reads], Mapping[str, "DataFrame"]]
# Around the writing: says what went wrong with the rows.
Named = Callable[[], AbstractContextManager[None]]


def run(
    task: TaskContext, config: TransformConfig, make: Make, named: Named = nullcontext
) -> Result:
    blocks: BlockRange | None = None
    if config.mode != "full":
        ranges = scope.merged_ranges(task)
        if len(ranges) > 1:
            # What lies between was not asked for: no partition may stand for it.
            return Result(split=ranges)
        (blocks,) = ranges
    if config.fold is not None and any(output.append is not None for output in task.outputs):
        raise InvalidConfig(
            "partial results replace those of their range: they cannot be appended",
            hint="write update_strategy: replace, or leave it out",
        )
    with private_session(task) as own, frames.opened(own) as data:
        if config.fold is not None and blocks is not None and any(o.files for o in task.outputs):
            return Result(outputs=[_merged(data, o, config.fold, blocks) for o in task.outputs])
        reads = Reads(own, own.spark(), data, names(task), blocks, config.window)
        made = make(reads)
        with named():
            return Result(
                outputs=[
                    _written(reads, output.output_index, made[output.name], config)
                    for output in task.outputs
                ]
            )


def _written(reads: Reads, output: int, made: DataFrame, config: TransformConfig) -> OutputCommit:
    data, blocks = reads.data, reads.blocks
    if config.fold is not None:
        return data.write(output, folded(made, config.fold), blocks, sort_by=config.fold.by)
    rows = _own_rows(made, reads)
    in_order = config.mode == "map" and _keeps_order(reads.task, rows)
    return data.write(output, rows, blocks or WHOLE, sort_by=() if in_order else None)


def _merged(data: Frames, output: TaskOutput, fold: Fold, blocks: BlockRange) -> OutputCommit:
    """What was committed in the task's range, as one partition. No input is read for it."""
    return data.write(output.output_index, data.merged(output), blocks, sort_by=fold.by)


def _keeps_order(task: TaskContext, frame: DataFrame) -> bool:
    """Whether rows come as they lie in files, which are sorted: a plan that moves none of them
    between tasks needs no sort of its own."""
    if any(given.table for given in task.inputs):
        return False
    plan = frame._jdf.queryExecution().executedPlan()
    return bool(plan.nodeName() != "AdaptiveSparkPlan")


def names(task: TaskContext) -> dict[str, int]:
    """By name. One that two inputs have means neither."""
    found: dict[str, set[int]] = {}
    for given in task.inputs:
        for name in (f"input_{given.input_index}", *given.names):
            found.setdefault(name.lower(), set()).add(given.input_index)
    return {name: next(iter(meant)) for name, meant in found.items() if len(meant) == 1}


def _own_rows(frame: DataFrame, reads: Reads) -> DataFrame:
    """Rows of buckets that were read only for what is around them are other partitions'."""
    window, blocks = reads.window, reads.blocks
    if blocks is None or window is None:
        return frame
    if window.time is not None and reads.buckets is not None:
        frame = reads.buckets.own_results(frame, window.time)
    if BLOCK not in frame.columns:
        return frame
    if window.every is not None:
        raise InvalidConfig(
            f"rows of buckets of time have a column {BLOCK}, and a bucket is of many blocks",
            hint=f"leave it out, or give it another name: min({BLOCK}) as first_block",
        )
    return frame.filter(within([blocks])) if window.reads_around else frame
