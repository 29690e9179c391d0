"""Which block ranges the updates of a dataset cover."""

from __future__ import annotations

from uuid import UUID

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.merge_ranges import merge_ranges
from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


async def extents(tx: Tx, generation_id: UUID) -> list[Row]:
    """By dataset version that the generation reads: the first and the last block of its updates."""
    rows: list[Row] = await _sql.extents(tx, generation_id=generation_id)
    return rows


async def last_update(tx: Tx, dataset_version: UUID, blocks: BlockRange) -> int | None:
    """The newest event that has to do with the range; None unless updates of the dataset, together,
    reach over all of it."""
    rows = await _sql.updates(
        tx, dataset_version=dataset_version, start=blocks.start, end=blocks.end
    )
    there = [BlockRange(row["range_start"], row["range_end"]) for row in rows if row["is_there"]]
    whole = any(
        merged.span.start <= blocks.start and merged.span.end >= blocks.end
        for merged in merge_ranges(there)
    )
    return max(row["id"] for row in rows) if whole else None
