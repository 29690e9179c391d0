"""Failed tasks whose time has come go back to the queue; lost wake-ups are sent again."""

from __future__ import annotations

from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row
from trace_platform.state import tasks

# A queued task that nobody claimed for so long has perhaps lost its message. A repeated wake-up
# costs one refused claim.
ANNOUNCE_AGAIN_S = 60.0


async def requeue_failed(state: Database, limit: int = 100) -> list[Row]:
    """The tasks that were announced: Failed -> Queued (`retried`), or Queued still, ever more
    rarely."""
    async with state.statement() as tx:
        return await tasks.requeue_due(tx, limit, ANNOUNCE_AGAIN_S)
