"""What aggregators have seen of their keys. A key is closed once: complete, or too late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class Arrived:
    """How many inputs a key has arrived from, and how many there are."""

    arrived: int
    inputs: int


async def arrive(
    tx: Tx,
    generation_id: UUID,
    job_id: UUID,
    key: str,
    inputs: Sequence[int],
    event: dict[str, Any],
    timeout_s: float | None,
) -> Arrived | None:
    """None when the key is closed. The event and the time-out are those of the first arrival."""
    row: Row | None = await _sql.arrive(
        tx,
        generation_id=generation_id,
        job_id=job_id,
        key=key,
        arrived=list(inputs),
        event=event,
        timeout_s=timeout_s,
    )
    return Arrived(**row) if row else None


async def complete(tx: Tx, generation_id: UUID, key: str) -> None:
    await _sql.complete(tx, generation_id=generation_id, key=key)


async def expire(tx: Tx, limit: int) -> list[Row]:
    """Close what is open past its time, and say what that was."""
    rows: list[Row] = await _sql.expire(tx, limit=limit)
    return rows
