"""What an operator has to find again: values by key, of one generation of its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


async def read(tx: Tx, generation_id: UUID) -> dict[str, Any]:
    rows = await _sql.all_of(tx, generation_id=generation_id)
    return {row["key"]: row["value"] for row in rows}


async def change(tx: Tx, generation_id: UUID, state: Mapping[str, Any]) -> None:
    """Of the keys that are given; null forgets one. The caller holds the fence of a task."""
    gone = [key for key, value in state.items() if value is None]
    if len(gone) < len(state):
        await _sql.put(tx, generation_id=generation_id, state=Jsonb(dict(state)))
    if gone:
        await _sql.forget(tx, generation_id=generation_id, keys=gone)


async def forget_all(tx: Tx, generation_ids: Sequence[UUID]) -> None:
    await _sql.forget_all(tx, generation_ids=list(generation_ids))
