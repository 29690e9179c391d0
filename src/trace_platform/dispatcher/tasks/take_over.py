"""A worker that was started again gives up what it held before: nobody waits for those leases."""

from __future__ import annotations

import structlog

from trace_platform.drivers.postgres.database import Database
from trace_platform.state import tasks
from trace_platform.state.task_rows import ReapedAttempt
from trace_platform.wire.task import TakeOverRequest

log = structlog.get_logger()


async def take_over(state: Database, request: TakeOverRequest) -> list[ReapedAttempt]:
    """The attempts of its earlier incarnations that were given up: Running -> Failed, and due for a
    retry. What a newer incarnation holds stays, however late this request comes."""
    async with state.transaction() as tx:
        left = await tasks.abandoned(tx, request.identity, request.incarnation)
        given_up = await tasks.reap(tx, left, request.identity, request.incarnation) if left else []
    for attempt in given_up:
        named = {
            name: str(getattr(attempt, name))
            for name in ("dag", "job", "task", "attempt", "worker")
        }
        log.warning("attempt_left_behind", **named)
    return given_up
