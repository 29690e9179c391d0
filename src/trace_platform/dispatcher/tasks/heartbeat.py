"""⑤ A worker keeps its leases and hears what it shall do."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import structlog

from trace_platform.domain.errors import InternalError, TraceError, Unavailable
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import tasks
from trace_platform.state.task_rows import Lease
from trace_platform.wire.task import HeartbeatRequest, HeartbeatResponse

log = structlog.get_logger()

# A worker stops a late attempt itself; this is for one that cannot.
GRACE_S = 60.0


async def heartbeat(
    state: Database, requests: Sequence[HeartbeatRequest]
) -> list[HeartbeatResponse | TraceError]:
    """In the order of the requests: the lease, or StaleFence for an attempt that lost its task."""
    try:
        return await _extend(state, requests)
    except Unavailable:
        raise
    except Exception as error:
        if len(requests) == 1:
            return [_named(requests[0], error)]
    # One row that the database refuses must not cost the others their leases.
    half = len(requests) // 2
    return await heartbeat(state, requests[:half]) + await heartbeat(state, requests[half:])


async def _extend(
    state: Database, requests: Sequence[HeartbeatRequest]
) -> list[HeartbeatResponse | TraceError]:
    beats = [(r.fence, r.progress.model_dump() if r.progress else None) for r in requests]
    async with state.statement() as tx:
        leases = await tasks.extend_leases(tx, beats, GRACE_S)
    return [_answer(request, leases) for request in requests]


def _named(request: HeartbeatRequest, error: Exception) -> TraceError:
    if isinstance(error, TraceError):
        return error
    log.error("lease_cannot_be_kept", task=str(request.task_id), exc_info=error)
    return InternalError("a defect; the service's log has more")


def _answer(request: HeartbeatRequest, leases: dict[UUID, Lease]) -> HeartbeatResponse | TraceError:
    lease = leases.get(request.task_id)
    # Two attempts of one task in a batch: only the one that holds the lease was extended.
    if lease is None or lease.attempt != request.attempt:
        return tasks.stale(request.fence)
    return HeartbeatResponse(lease_expires_at=lease.lease_expires_at, directive=lease.directive)
