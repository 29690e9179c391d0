"""Why something does not move: a task by its id, a job as DAG.JOB, a dataset by its name."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.datasets.explain_dataset import explain_dataset
from trace_platform.dispatcher.datasets.find_dataset import MOST_NAMES
from trace_platform.dispatcher.health.explain_job import explain_job
from trace_platform.dispatcher.health.explain_task import explain_task
from trace_platform.dispatcher.health.standing_alerts import known_wrong
from trace_platform.domain.alike import listed, meant
from trace_platform.domain.errors import BadInput
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags, datasets, overview
from trace_platform.wire.control import Why
from trace_platform.wire.dataset import DatasetWhy

_MOST_JOBS = 12


async def explain(
    state: Database, data: Database, runtimes: Runtimes, org_id: UUID, subject: str
) -> Why | DatasetWhy:
    """As things stand at one moment."""
    wrong = await known_wrong(data)
    async with overview.snapshot(state) as tx:
        dag_name, dot, job_name = subject.partition(".")
        task_id = _task_id(subject)
        # DAG.JOB is the job; its dataset is DAG.JOB.OUTPUT, or what it is published as.
        if not dot or "." in job_name:
            dataset = await datasets.find(tx, org_id, subject)
            if dataset is not None:
                return await explain_dataset(tx, org_id, dataset.uuid, wrong)
        if task_id is not None:
            return await explain_task(tx, runtimes, org_id, task_id)
        if not dot:
            raise await _unknown(tx, org_id, subject)
        return await explain_job(tx, runtimes, org_id, dag_name, job_name)


async def _unknown(tx: Tx, org_id: UUID, subject: str) -> BadInput:
    known = await datasets.names(tx, org_id, MOST_NAMES)
    ways = "give a task's id, a job as DAG.JOB, or a dataset's name"
    active = await dags.active_version(tx, org_id, subject)
    if active is not None:
        jobs = [f"{subject}.{name}" for name in await dags.version_jobs(tx, active)]
        said = f"'{subject}' is a DAG: it is its jobs that wait"
        return BadInput(
            said, hint=f"trace why {jobs[0]}, or another one: {listed(jobs, _MOST_JOBS)}"
        )
    return BadInput(
        f"'{subject}' is neither a task, nor a job, nor a dataset",
        hint=f"{meant(subject, known)} {ways}".lstrip(),
    )


def _task_id(subject: str) -> UUID | None:
    try:
        return UUID(subject)
    except ValueError:
        return None
