"""Read-only answers: what a DAG is doing, which tasks there are."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from uuid import UUID

from trace_platform.dispatcher.tasks.task_payload import task_payloads
from trace_platform.dispatcher.versions.refuse_unknown_dag import check_known, refuse_unknown_dag
from trace_platform.domain.errors import BadInput, NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import dags, datasets, overview, tasks
from trace_platform.state.dags import ActiveJob
from trace_platform.state.overview import AlikeTasks
from trace_platform.state.task_rows import TaskCount
from trace_platform.wire.control import (
    DagStatus,
    DatasetStatus,
    JobStatus,
    TaskGroup,
    TaskGroups,
    TaskList,
    TaskStatus,
)
from trace_platform.wire.task import FetchResponse

# Older tasks that ended are history: counting it would take ever longer.
RECENT = timedelta(days=1)
# Of so many of the newest tasks, so many that are alike, or more, are one group.
GROUPED = 10_000
ALIKE = 3
# Ids count from here.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def dag_status(
    state: Database, org_id: UUID, dag_name: str, since: datetime | None = None
) -> DagStatus:
    """Counts of all tasks that are alive and of those made since; the last day's by default."""
    since = max(since or datetime.now(UTC) - RECENT, EPOCH)
    async with overview.snapshot(state) as tx:
        jobs = await dags.active_jobs(tx, org_id, dag_name)
        if not jobs:
            await refuse_unknown_dag(tx, org_id, dag_name)
        as_of, routing = await overview.routing(tx, org_id, dag_name)
        counts = await tasks.counts(tx, org_id, dag_name, since)
        held = await datasets.published(tx, org_id, dag_name)
    by_job: dict[str, list[TaskCount]] = defaultdict(list)
    for count in counts:
        by_job[count.job_name].append(count)
    return DagStatus(
        dag_name=dag_name,
        as_of=as_of,
        routing=routing,
        oldest_open=min(
            (each.oldest_open for each in counts if each.oldest_open is not None), default=None
        ),
        jobs=[_job_status(job, by_job[job.name]) for job in jobs],
        datasets=[DatasetStatus.model_validate(dataset, from_attributes=True) for dataset in held],
    )


def _job_status(job: ActiveJob, counts: list[TaskCount]) -> JobStatus:
    return JobStatus(
        name=job.name,
        operator=job.operator,
        counts={each.status: each.tasks for each in counts},
    )


async def list_tasks(
    state: Database,
    org_id: UUID,
    dag_name: str | None,
    job_name: str | None,
    status: str | None,
    limit: int,
) -> TaskList:
    async with state.transaction() as tx:
        rows = await tasks.listing(tx, org_id, dag_name, job_name, status, limit + 1)
        if not rows:
            await check_known(tx, org_id, dag_name, job_name)
    shown = [TaskStatus.model_validate(row, from_attributes=True) for row in rows[:limit]]
    return TaskList(tasks=shown, more=len(rows) > limit)


async def group_tasks(
    state: Database, org_id: UUID, dag_name: str | None, limit: int
) -> TaskGroups:
    """The newest tasks; many that are alike are one group, whatever came between them."""
    async with state.transaction() as tx:
        rows = await overview.task_groups(tx, org_id, dag_name, limit + 1, look=GROUPED, fold=ALIKE)
        if not rows:
            await check_known(tx, org_id, dag_name)
    return TaskGroups(
        groups=[_group(row) for row in rows[:limit]],
        more=len(rows) > limit or any(row.older for row in rows),
    )


def _group(row: AlikeTasks) -> TaskGroup:
    own = ("dag_name", "job_name", "tasks", "first_at", "last_at")
    return TaskGroup(
        **{field: getattr(row, field) for field in own},
        newest=TaskStatus(**{field: getattr(row, field) for field in TaskStatus.model_fields}),
    )


async def tasks_like(state: Database, org_id: UUID, prefix: str, limit: int) -> TaskList:
    """The tasks whose id begins with these hexadecimal digits."""
    digits = _digits(prefix)
    first, last = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
    async with state.transaction() as tx:
        rows = await overview.tasks_between(tx, org_id, first, last, limit)
    return TaskList(tasks=[TaskStatus.model_validate(row, from_attributes=True) for row in rows])


async def tasks_ending(state: Database, org_id: UUID, suffix: str, limit: int) -> TaskList:
    async with state.transaction() as tx:
        rows = await overview.tasks_ending(tx, org_id, _digits(suffix), limit)
    return TaskList(tasks=[TaskStatus.model_validate(row, from_attributes=True) for row in rows])


def _digits(part: str) -> str:
    digits = part.replace("-", "").lower()
    if len(digits) > 32:
        raise BadInput(f"'{part}' is longer than an id")
    return digits


async def fetch_task(state: Database, bucket: str, task_id: UUID) -> FetchResponse:
    async with state.transaction() as tx:
        task = await tasks.get(tx, task_id)
        if task is None:
            raise NotFound(f"there is no task {task_id}")
        (payload,) = await task_payloads(tx, [task], bucket)
    return FetchResponse(status=task.status, task=payload)
