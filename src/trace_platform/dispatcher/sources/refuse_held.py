"""A source that is on hold emits nothing: whoever feeds it is told why, and waits."""

from __future__ import annotations

from uuid import UUID

from trace_platform.domain.errors import JobOnHold
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import holds


async def refuse_held(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> None:
    """Raise JobOnHold when a hold reaches down to the job's own priority."""
    found = await holds.stopping(tx, org_id, dag_name, job_name)
    if found:
        reasons = "; ".join(hold.reason for hold in found)
        paused = any(hold.cause == "user" for hold in found)
        raise JobOnHold(
            f"{dag_name}.{job_name} is on hold: {reasons}",
            hint=f"trace resume {dag_name}.{job_name}" if paused else "try again later",
        )
