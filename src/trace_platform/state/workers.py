"""Who works now. For people and alerts: nothing is decided by it."""

from __future__ import annotations

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


async def seen(tx: Tx, worker_id: str, runtime: str, slots: int, running: int) -> None:
    await _sql.seen(tx, worker_id=worker_id, runtime=runtime, slots=slots, running=running)


async def alive(tx: Tx, within_s: float) -> list[Row]:
    rows: list[Row] = await _sql.alive(tx, within_s=within_s)
    return rows


async def forget(tx: Tx, after_s: float) -> None:
    await _sql.forget(tx, after_s=after_s)
