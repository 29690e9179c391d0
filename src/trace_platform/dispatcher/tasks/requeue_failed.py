"""Failed tasks whose time has come go back to the queue; lost wake-ups are sent again."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import structlog

from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import tasks
from trace_platform.state.task_rows import AnnouncedTask

log = structlog.get_logger()

# A queued task that nobody claimed for so long has perhaps lost its message. A repeated wake-up
# costs one refused claim.
ANNOUNCE_AGAIN_S = 60.0


async def requeue_failed(state: Database, limit: int = 100) -> list[AnnouncedTask]:
    """The tasks that were announced: Failed -> Queued (`retried`), or Queued still, ever more
    rarely."""
    async with state.statement() as tx:
        due = await tasks.due(tx, limit)
    return await _requeue(state, due)


async def _requeue(state: Database, due: Sequence[UUID]) -> list[AnnouncedTask]:
    if not due:
        return []
    try:
        async with state.statement() as tx:
            return await tasks.requeue(tx, due, ANNOUNCE_AGAIN_S)
    except Unavailable:
        raise
    except Exception:
        if len(due) == 1:
            log.exception("cannot_requeue", task=str(due[0]))
            return []
    # One row that the database refuses must not keep the others waiting.
    half = len(due) // 2
    return await _requeue(state, due[:half]) + await _requeue(state, due[half:])
