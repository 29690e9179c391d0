"""A user pauses a job: its tasks wait, and a source of that name emits nothing."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.pressure.list_queues import holds_of
from trace_platform.dispatcher.versions.find_job import find_job
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import holds
from trace_platform.wire.control import JobHolds, PauseRequest


async def pause_job(
    state: Database, org_id: UUID, dag_name: str, job_name: str, request: PauseRequest
) -> JobHolds:
    """What runs goes on. A job that is paused already keeps its reason."""
    async with state.transaction() as tx:
        await find_job(tx, org_id, dag_name, job_name)
        reason = request.reason or "paused by a user"
        changed = await holds.pause(tx, org_id, dag_name, job_name, reason)
        found = await holds_of(tx, org_id, dag_name, job_name)
    return JobHolds(dag_name=dag_name, job_name=job_name, changed=changed, holds=found)
