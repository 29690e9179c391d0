"""A user stops a task: at once when it is queued, through the next heartbeat when it runs."""

from __future__ import annotations

from uuid import UUID

from trace_platform.domain.errors import Conflict, NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import tasks


async def cancel_task(state: Database, org_id: UUID, task_id: UUID) -> str:
    async with state.transaction() as tx:
        status = await tasks.cancel(tx, org_id, task_id)
        if status is not None:
            return status
        task = await tasks.get(tx, task_id)
    if task is None or task.org_id != org_id:
        raise NotFound(f"there is no task {task_id}")
    raise Conflict(f"task {task_id} has ended already: {task.status}")
