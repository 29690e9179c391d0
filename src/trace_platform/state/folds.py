"""Folds: which there are, the partitions of one, and tasks that merge some of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class FoldGeneration:
    generation_id: UUID
    job_id: UUID


@dataclass(frozen=True, slots=True)
class FoldPart:
    """A partition that is current."""

    id: UUID
    start: int
    end: int

    @property
    def span(self) -> BlockRange:
        return BlockRange(self.start, self.end)


async def generations(tx: Tx, operators: Sequence[str]) -> list[FoldGeneration]:
    return await _sql.rows(tx, "generations", FoldGeneration, operators=list(operators))


async def parts(tx: Tx, generation_id: UUID) -> list[FoldPart]:
    return await _sql.rows(tx, "parts", FoldPart, generation_id=generation_id)


async def merge(
    tx: Tx, fold: FoldGeneration, span: BlockRange, members: Sequence[FoldPart], rank: int
) -> bool:
    """Have these partitions merged; False where a task for just them was made before."""
    names = ",".join(str(part.id) for part in members)
    made = await _sql.merge(
        tx,
        generation_id=fold.generation_id,
        job_id=fold.job_id,
        key=span.key,
        start=span.start,
        end=span.end,
        parts=hashlib.sha256(names.encode()).hexdigest()[:16],
        rank=rank,
    )
    return bool(made)
