"""Side effects that are owed: written with the intent, deleted once they happened."""

from __future__ import annotations

from collections.abc import Sequence

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


async def claim(tx: Tx, limit: int, hide_s: float) -> list[Row]:
    rows: list[Row] = await _sql.claim(tx, limit=limit, hide_s=hide_s)
    return rows


async def settle(tx: Tx, ids: Sequence[int]) -> None:
    await _sql.settle(tx, ids=list(ids))
