"""⑤ A worker keeps its lease and hears what it shall do."""

from __future__ import annotations

from trace_platform.drivers.postgres.database import Database
from trace_platform.state import tasks
from trace_platform.wire.task import HeartbeatRequest, HeartbeatResponse

# A worker stops a late attempt itself; this is for one that cannot.
GRACE_S = 60.0


async def heartbeat(state: Database, request: HeartbeatRequest) -> HeartbeatResponse:
    progress = request.progress.model_dump() if request.progress else None
    async with state.transaction() as tx:
        lease = await tasks.extend_lease(tx, request.fence, progress, GRACE_S)
    return HeartbeatResponse(
        lease_expires_at=lease["lease_expires_at"],
        directive="cancel" if lease["cancel_requested_at"] else "continue",
    )
