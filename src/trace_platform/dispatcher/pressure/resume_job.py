"""A user lets a job go on: what waited is announced again."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.pressure.list_queues import holds_of
from trace_platform.dispatcher.versions.find_job import find_job
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import holds
from trace_platform.wire.control import JobHolds


async def resume_job(state: Database, org_id: UUID, dag_name: str, job_name: str) -> JobHolds:
    """What else holds it, a consumer that is behind, stays. A job that a later deploy removed can
    be resumed too: its last tasks may wait."""
    async with state.transaction() as tx:
        changed = await holds.resume(tx, org_id, dag_name, job_name)
        if not changed:
            await find_job(tx, org_id, dag_name, job_name)
        found = await holds_of(tx, org_id, dag_name, job_name)
    if changed:
        # Once the hold is gone for everybody: what came meanwhile has had its wake-up wasted.
        async with state.statement() as tx:
            await holds.announce_ready(tx, org_id, dag_name, job_name)
    return JobHolds(dag_name=dag_name, job_name=job_name, changed=changed, holds=found)
