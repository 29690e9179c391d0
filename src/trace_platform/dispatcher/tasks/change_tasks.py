"""Many tasks are canceled or retried with one request, a few at a time: nobody waits for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from uuid import UUID

from trace_platform.dispatcher.versions.refuse_unknown_dag import check_known
from trace_platform.domain.errors import BadInput
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import sources, tasks
from trace_platform.state.task_rows import SelectedTask
from trace_platform.state.tasks import Chosen
from trace_platform.wire.control import SelectedTasks, TaskSelection, TasksOfJob

# With one request, and in one transaction of it.
MOST = 100_000
TOGETHER = 500

Find = Callable[[Tx, UUID, Chosen, int], Awaitable[list[SelectedTask]]]
Change = Callable[[Tx, UUID, list[UUID]], Awaitable[list[UUID]]]

_OPEN = ("Queued", "Running", "Failed")
_ENDED_BADLY = ("Failed", "Canceled")


async def cancel_tasks(state: Database, org_id: UUID, chosen: TaskSelection) -> SelectedTasks:
    """What has not ended. `Failed` means what waits for another attempt."""
    _check(chosen, _OPEN, "canceled")
    return await _change(state, org_id, chosen, tasks.cancelable, tasks.cancel_all)


async def retry_tasks(state: Database, org_id: UUID, chosen: TaskSelection) -> SelectedTasks:
    """What failed for good or, when that is asked for, what was canceled. What fails again while
    this is done has ended later, and is not taken twice."""
    _check(chosen, _ENDED_BADLY, "retried")
    return await _change(state, org_id, chosen, tasks.retryable, tasks.retry_all)


def _check(chosen: TaskSelection, possible: tuple[str, ...], done: str) -> None:
    filters = (chosen.dag_name, chosen.job_name, chosen.status, chosen.since, chosen.until)
    if all(each is None for each in filters):
        raise BadInput("say which tasks", hint="give a DAG, a job, a status or a time")
    if chosen.status is not None and chosen.status not in possible:
        raise BadInput(
            f"tasks that are {chosen.status} cannot be {done}", hint=f"one of {', '.join(possible)}"
        )


async def _change(
    state: Database, org_id: UUID, chosen: TaskSelection, find: Find, change: Change
) -> SelectedTasks:
    async with state.transaction() as tx:
        until = chosen.until or await sources.now(tx)
        filters = chosen.model_dump(include=set(Chosen._fields)) | {"until": until}
        found = await find(tx, org_id, Chosen(**filters), MOST + 1)
        if not found:
            await check_known(tx, org_id, chosen.dag_name, chosen.job_name)
    meant = {task.id: task for task in found[:MOST]}
    done = list(meant) if chosen.dry_run else await _in_parts(state, org_id, list(meant), change)
    return _told([meant[each] for each in done], until, more=len(found) > MOST)


async def _in_parts(
    state: Database, org_id: UUID, task_ids: list[UUID], change: Change
) -> list[UUID]:
    """Those that were changed: some may have ended, or been done, meanwhile."""
    done: list[UUID] = []
    for first in range(0, len(task_ids), TOGETHER):
        async with state.transaction() as tx:
            done += await change(tx, org_id, task_ids[first : first + TOGETHER])
    return done


def _told(done: list[SelectedTask], until: datetime, *, more: bool) -> SelectedTasks:
    counts = Counter((task.dag_name, task.job_name, task.status) for task in done)
    return SelectedTasks(
        until=until,
        tasks=len(done),
        jobs=[
            TasksOfJob(dag_name=dag, job_name=job, status=status, tasks=tasks_)
            for (dag, job, status), tasks_ in sorted(counts.items())
        ],
        more=more,
    )
