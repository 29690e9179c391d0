"""Which block ranges the updates of a dataset cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.merge_ranges import merge_ranges
from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class Extent:
    """How far the updates of a version go: where the first of them ends, and the last."""

    dataset_version: UUID
    first_end: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class Update:
    """An event of a block range; not there: the range was said to be invalid."""

    id: int
    range_start: int
    range_end: int
    is_there: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """Updates that, together and without a gap, reach the end of a range from `start` on."""

    start: int
    # All that has to do with the range, also what was said to be invalid.
    updates: Sequence[Update]

    def last_update(self, start: int) -> int:
        """The newest event that has to do with the range from this block on."""
        return max(update.id for update in self.updates if update.range_end >= start)


async def extents(tx: Tx, generation_id: UUID) -> list[Extent]:
    """By dataset version that the generation reads: where the first of its updates ends, and the
    last."""
    return await _sql.rows(tx, "extents", Extent, generation_id=generation_id)


async def reach(tx: Tx, dataset_version: UUID, blocks: BlockRange) -> Reach | None:
    """None when the last of the blocks is not there."""
    updates = await _sql.rows(
        tx,
        "updates",
        Update,
        dataset_version=dataset_version,
        start=blocks.start,
        end=blocks.end,
    )
    there = [BlockRange(each.range_start, each.range_end) for each in updates if each.is_there]
    for merged in merge_ranges(there):
        if merged.span.start <= blocks.end <= merged.span.end:
            return Reach(max(merged.span.start, blocks.start), updates)
    return None
