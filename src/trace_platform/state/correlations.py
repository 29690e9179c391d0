"""What aggregators have seen of their keys. A key is closed once: complete, or too late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class Arrived:
    """How many inputs a key has arrived from, and how many there are."""

    arrived: int
    inputs: int


@dataclass(frozen=True, slots=True)
class LateKey:
    """A key that was closed too late, with the event of its first arrival and its job's config."""

    key: str
    arrived: list[int]
    event: dict[str, Any]
    org_id: UUID
    dag_name: str
    job_name: str
    config: dict[str, Any]


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
    return await _sql.row(
        tx,
        "arrive",
        Arrived,
        generation_id=generation_id,
        job_id=job_id,
        key=key,
        arrived=list(inputs),
        event=event,
        timeout_s=timeout_s,
    )


async def complete(tx: Tx, generation_id: UUID, key: str) -> None:
    await _sql.complete(tx, generation_id=generation_id, key=key)


async def expire(tx: Tx, limit: int) -> list[LateKey]:
    """Close what is open past its time, and say what that was."""
    return await _sql.rows(tx, "expire", LateKey, limit=limit)
