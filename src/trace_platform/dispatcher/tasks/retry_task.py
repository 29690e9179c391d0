"""A user gives a task that failed or was canceled another chance."""

from __future__ import annotations

from uuid import UUID

from trace_platform.domain.errors import Conflict, NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import tasks
from trace_platform.state.task_rows import StoredTask


async def retry_task(state: Database, org_id: UUID, task_id: UUID) -> None:
    """Queued again, with all its attempts before it."""
    async with state.transaction() as tx:
        if await tasks.retry(tx, org_id, task_id):
            return
        task = await tasks.get(tx, task_id)
    if task is None or task.org_id != org_id:
        raise NotFound(f"there is no task {task_id}")
    raise _refusal(task)


def _refusal(task: StoredTask) -> Conflict:
    cannot = f"task {task.id} cannot be retried"
    if task.status not in ("Failed", "Canceled"):
        return Conflict(f"{cannot}: it is {task.status}")
    if task.next_retry_at is not None:
        return Conflict(f"{cannot}: it is {task.status}, and runs again by itself")
    return Conflict(
        f"{cannot}: its version of the DAG was replaced, removed, or never built to the end, and it"
        " would commit nothing",
        hint="`trace deploy` of the DAG's file makes what is missing, and goes on where it stopped",
    )
