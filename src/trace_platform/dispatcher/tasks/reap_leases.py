"""Attempts whose worker went silent are given up, so that another can start."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import structlog

from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import tasks
from trace_platform.state.task_rows import ReapedAttempt

log = structlog.get_logger()


async def reap_leases(state: Database, limit: int = 500) -> list[ReapedAttempt]:
    """The attempts that were given up: Running -> Failed, and due for a retry."""
    async with state.statement() as tx:
        due = await tasks.expired(tx, limit)
    return await _reap(state, due)


async def _reap(state: Database, due: Sequence[UUID]) -> list[ReapedAttempt]:
    if not due:
        return []
    try:
        async with state.transaction() as tx:
            return await tasks.reap(tx, due)
    except Unavailable:
        raise
    except Exception:
        if len(due) == 1:
            log.exception("cannot_reap", task=str(due[0]))
            return []
    # One row that the database refuses must not keep the others from being reaped.
    half = len(due) // 2
    return await _reap(state, due[:half]) + await _reap(state, due[half:])
