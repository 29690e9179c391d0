"""Which block ranges the updates of a dataset cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.merge_ranges import merge_ranges
from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class Reach:
    """Updates that, together and without a gap, reach the end of a range from `start` on."""

    start: int
    # All that has to do with the range, also what was said to be invalid.
    rows: Sequence[Row]

    def last_update(self, start: int) -> int:
        """The newest event that has to do with the range from this block on."""
        newest: int = max(row["id"] for row in self.rows if row["range_end"] >= start)
        return newest


async def extents(tx: Tx, generation_id: UUID) -> list[Row]:
    """By dataset version that the generation reads: where the first of its updates ends, and the
    last."""
    rows: list[Row] = await _sql.extents(tx, generation_id=generation_id)
    return rows


async def reach(tx: Tx, dataset_version: UUID, blocks: BlockRange) -> Reach | None:
    """None when the last of the blocks is not there."""
    rows = await _sql.updates(
        tx, dataset_version=dataset_version, start=blocks.start, end=blocks.end
    )
    there = [BlockRange(row["range_start"], row["range_end"]) for row in rows if row["is_there"]]
    for merged in merge_ranges(there):
        if merged.span.start <= blocks.end <= merged.span.end:
            return Reach(max(merged.span.start, blocks.start), rows)
    return None
