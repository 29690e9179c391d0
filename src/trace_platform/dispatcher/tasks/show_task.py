"""One task with its limits and its whole history."""

from __future__ import annotations

from uuid import UUID

from trace_platform.domain.attempts import attempt_limit
from trace_platform.domain.errors import NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import overview, tasks
from trace_platform.state.overview import TaskNow
from trace_platform.wire.control import (
    PRIORITIES,
    AttemptStatus,
    JobLimits,
    PinnedOutput,
    TaskDetail,
)


async def show_task(state: Database, org_id: UUID, task_id: UUID) -> TaskDetail:
    async with overview.snapshot(state) as tx:
        task = await find_task(tx, org_id, task_id)
        attempts = await tasks.attempts_of(tx, task_id)
    own = {"outputs", "limits", "attempts"}
    return TaskDetail(
        **{field: getattr(task, field) for field in TaskDetail.model_fields if field not in own},
        outputs=[PinnedOutput(**output) for output in task.outputs or ()],
        limits=_limits(task),
        attempts=[
            AttemptStatus.model_validate(attempt, from_attributes=True) for attempt in attempts
        ],
    )


async def find_task(tx: Tx, org_id: UUID, task_id: UUID) -> TaskNow:
    """With its job's definition. Another organisation's task does not exist."""
    task = await overview.task(tx, org_id, task_id)
    if task is None:
        raise NotFound(f"there is no task {task_id}", hint="trace tasks list shows the newest")
    return task


def _limits(task: TaskNow) -> JobLimits:
    own = {
        "priority": PRIORITIES[task.priority],
        "max_attempts": attempt_limit(task.max_attempts),
    }
    return JobLimits(**({field: getattr(task, field) for field in JobLimits.model_fields} | own))
