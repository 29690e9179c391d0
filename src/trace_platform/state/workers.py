"""Who works now. For people and alerts: nothing is decided by it."""

from __future__ import annotations

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


async def seen(
    tx: Tx, worker_id: str, runtime: str, slots: int, source_slots: int, polled_s: float
) -> None:
    await _sql.seen(
        tx,
        worker_id=worker_id,
        runtime=runtime,
        slots=slots,
        source_slots=source_slots,
        polled_s=polled_s,
    )
