"""`range_splitter`: block ranges to smaller ones, each an event of its own. Runs without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators import scope
from trace_platform.operators.accepts import RANGE, RANGES, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.wire.task import DatasetEvent, TaskOutput

MAX_EVENTS = 100_000


class Config(OperatorConfig):
    chunk_blocks: int = Field(
        ge=1, description="Blocks per chunk. Chunks are cut at multiples of it."
    )


class RangeSplitter:
    name: ClassVar[str] = "range_splitter"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("ranges",)
    accepts: ClassVar[Accepts] = RANGES
    emits: ClassVar[Updates | None] = RANGE
    has_rows: ClassVar[bool] = False

    def run(self, task: TaskContext) -> Result:
        output, size = scope.output(task, 0), _size(task)
        # The same range twice makes the same chunks.
        asked = list(dict.fromkeys(scope.block_ranges(task)))
        _check_count(asked, size)
        task.check()
        # Each range by itself: chunks of two ranges are never joined where these meet.
        chunks = dict.fromkeys(piece for blocks in asked for piece in blocks.split(size))
        return Result(events=[_event(output, piece) for piece in chunks])


def _check_count(asked: Sequence[BlockRange], size: int) -> None:
    n = sum(blocks.end // size - blocks.start // size + 1 for blocks in asked)
    if n > MAX_EVENTS:
        # A range has up to one chunk more than it fills, and two ranges do not share theirs.
        total, room = sum(map(len, asked)), MAX_EVENTS - 2 * len(asked) + 1
        raise InvalidConfig(
            f"{total} blocks in chunks of {size} are {n} events, at most {MAX_EVENTS}",
            hint=f"set chunk_blocks to {-(-total // room)} or more",
        )


def _size(task: TaskContext) -> int:
    config: Config = task.config
    return config.chunk_blocks


def _event(output: TaskOutput, blocks: BlockRange) -> DatasetEvent:
    return DatasetEvent(
        dataset_uuid=output.dataset_uuid,
        dataset_version=output.dataset_version,
        partition_key=blocks.key,
        start=blocks.start,
        end=blocks.end,
    )
