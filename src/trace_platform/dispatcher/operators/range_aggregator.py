"""`range_aggregator`: small block ranges to chunks of one size, each once it is whole and final.

It keeps nothing of its own: which ranges there are is on record, so that of updates in any order
the one that makes a chunk whole, or final, emits it.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid5

from trace_platform.dag.event_operators import range_aggregator
from trace_platform.dag.event_operators.range_aggregator import Config
from trace_platform.dispatcher.operators.contract import EventTask, RepeatedEvent
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import coverage
from trace_platform.state.coverage import Extent
from trace_platform.wire.task import TaskInput

# Emitted by one task: it runs within a transaction.
MAX_CHUNKS = 10_000


class RangeAggregator(range_aggregator.RangeAggregator):
    async def run(self, tx: Tx, task: EventTask) -> list[RepeatedEvent]:
        extents = await coverage.extents(tx, task.generation_id)
        ends = [extent.last for extent in extents if extent.last is not None]
        if not extents or len(ends) < len(extents):
            return []
        final = min(ends) - task.config.finality_depth
        concerned = {
            chunk.end: chunk
            for given in task.inputs
            for chunk in _concerned(given, task.config, final)
        }
        found = [await _whole(tx, extents, chunk) for _, chunk in sorted(concerned.items())]
        return [_news(task, *each) for each in found if each is not None]


def _concerned(given: TaskInput, config: Config, final: int) -> Iterator[BlockRange]:
    """The final chunks that the update is a part of, and those that it makes final."""
    if given.start is None or given.end is None:
        raise InvalidConfig(
            f"inputs[{given.input_index}] brought no block range, and ranges are aggregated",
            hint="read a job whose updates are block ranges",
        )
    own = BlockRange(given.start, given.end)
    reached = max(0, own.start - config.finality_depth)
    size = config.chunk_blocks
    first, last = reached // size, min(own.end, max(final, 0)) // size
    if last - first > MAX_CHUNKS:
        raise InvalidConfig(
            f"{len(own)} blocks are more than {MAX_CHUNKS} chunks of {size}",
            hint="raise chunk_blocks",
        )
    for n in range(first, last + 1):
        chunk = BlockRange(n * size, (n + 1) * size - 1)
        overlaps = chunk.end >= own.start and chunk.start <= own.end
        made_final = reached <= chunk.end <= own.end - config.finality_depth
        if chunk.end <= final and (overlaps or made_final):
            yield chunk


async def _whole(tx: Tx, extents: list[Extent], chunk: BlockRange) -> tuple[BlockRange, int] | None:
    """The chunk, from the first block that all inputs have, and the last update of it; None while
    a part of it is missing."""
    reaches = []
    for extent in extents:
        found = await coverage.reach(tx, extent.dataset_version, chunk)
        if found is None:
            return None
        reaches.append(found)
    begin = [
        found.start
        for extent, found in zip(extents, reaches, strict=True)
        if extent.first_end is not None and extent.first_end >= found.start
    ]
    first = max([chunk.start, *begin])
    if any(found.start > first for found in reaches):
        return None
    last_update = max(found.last_update(first) for found in reaches)
    return BlockRange(first, chunk.end), last_update


def _news(task: EventTask, blocks: BlockRange, last_update: int) -> RepeatedEvent:
    """Once per state of the chunk: when a part of it is made again, it is news again."""
    dataset_uuid, dataset_version = task.outputs[0]
    return RepeatedEvent(
        dataset_uuid=dataset_uuid,
        dataset_version=dataset_version,
        partition_key=blocks.key,
        start=blocks.start,
        end=blocks.end,
        repeat=uuid5(dataset_version, f"{blocks.key}@{last_update}"),
    )
