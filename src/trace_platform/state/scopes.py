"""What a generation works through: its inputs of a range, how far it is with them, and the tasks
that do some of them once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)

# Of one task that takes its inputs together: they travel in one message.
MAX_INPUTS = 1_000


@dataclass(frozen=True, slots=True)
class ScopeInput:
    """What a generation reads of a part: the event that stands for it, and how much it holds."""

    event_id: int
    dataset_uuid: UUID
    dataset_version: UUID
    partition_key: str | None
    start: int | None
    end: int | None
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RangeInput(ScopeInput):
    """One that is a block range."""

    start: int
    end: int


async def generation_of(tx: Tx, dataset_version: UUID) -> UUID:
    """The generation that makes this version of a dataset."""
    found: UUID = await _sql.generation_of(tx, dataset_version=dataset_version)
    return found


async def overlapping(tx: Tx, generation_id: UUID, span: BlockRange) -> list[RangeInput]:
    """The inputs that hold some of the range now."""
    return await _sql.rows(
        tx,
        "overlapping",
        RangeInput,
        generation_id=generation_id,
        start=span.start,
        end=span.end,
    )


async def of_partition(tx: Tx, generation_id: UUID, partition_key: str | None) -> list[ScopeInput]:
    return await _sql.rows(
        tx, "of_partition", ScopeInput, generation_id=generation_id, partition_key=partition_key
    )


async def states(tx: Tx, generation_id: UUID, event_ids: Sequence[int]) -> dict[int, str]:
    """By input: done, under_way, or due."""
    rows = await _sql.states(tx, generation_id=generation_id, event_ids=list(event_ids))
    return {row["event_id"]: row["state"] for row in rows}


async def redo(
    tx: Tx,
    generation_id: UUID,
    event_ids: Sequence[int],
    suffix: str,
    *,
    rank: int = 0,
    invalidation_id: UUID | None = None,
    backfill_id: UUID | None = None,
) -> list[UUID]:
    """The tasks that are new: one per input and suffix, no more urgent than this rank."""
    if not event_ids:
        return []
    await _sql.count_redo(tx, generation_id=generation_id)
    await _sql.let_hash(tx, allowed="on")
    rows = await _sql.redo(
        tx,
        generation_id=generation_id,
        event_ids=list(event_ids),
        suffix=suffix,
        rank=rank,
        invalidation_id=invalidation_id,
        backfill_id=backfill_id,
        max_inputs=MAX_INPUTS,
    )
    await _sql.let_hash(tx, allowed="off")
    return [row["id"] for row in rows]
