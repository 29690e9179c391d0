"""Why something does not move: a task by its id, a job as DAG.JOB."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.explain_job import explain_job
from trace_platform.dispatcher.explain_task import explain_task
from trace_platform.domain.errors import BadInput
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview
from trace_platform.wire.control import Why


async def explain(state: Database, runtimes: Runtimes, org_id: UUID, subject: str) -> Why:
    """As things stand at one moment."""
    async with overview.snapshot(state) as tx:
        task_id = _task_id(subject)
        if task_id is not None:
            return await explain_task(tx, runtimes, org_id, task_id)
        dag_name, dot, job_name = subject.partition(".")
        if not dot:
            raise BadInput(
                f"'{subject}' is neither a task nor a job",
                hint="give a task's id, or a job as DAG.JOB",
            )
        return await explain_job(tx, runtimes, org_id, dag_name, job_name)


def _task_id(subject: str) -> UUID | None:
    try:
        return UUID(subject)
    except ValueError:
        return None
