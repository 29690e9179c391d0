"""A worker says that it is there, and how much room it has."""

from __future__ import annotations

from trace_platform.drivers.postgres.database import Database
from trace_platform.state import workers
from trace_platform.wire.task import HeartbeatBatchRequest


async def record_worker(state: Database, request: HeartbeatBatchRequest) -> None:
    async with state.statement() as tx:
        await workers.seen(
            tx,
            request.worker_id,
            request.runtime,
            request.slots,
            request.source_slots,
            request.polled_s,
        )
