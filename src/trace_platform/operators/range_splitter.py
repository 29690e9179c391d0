"""`range_splitter`: one block range to many, each an event of its own. Runs without Spark."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators import scope
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.wire.task import DatasetEvent, TaskOutput

MAX_EVENTS = 100_000


class Config(OperatorConfig):
    chunk_blocks: int = Field(ge=1)


class RangeSplitter:
    name: ClassVar[str] = "range_splitter"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("ranges",)

    def run(self, task: TaskContext) -> Result:
        blocks, output, size = scope.block_range(task), scope.output(task, 0), _size(task)
        n = blocks.end // size - blocks.start // size + 1
        if n > MAX_EVENTS:
            raise InvalidConfig(
                f"{len(blocks)} blocks in chunks of {size} are {n} events, at most {MAX_EVENTS}",
                hint=f"set chunk_blocks to {-(-len(blocks) // (MAX_EVENTS - 1))} or more",
            )
        task.check()
        return Result(events=[_event(output, piece) for piece in blocks.split(size)])


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
