"""A job by its names, or an error that says which there are."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.versions.refuse_unknown_dag import refuse_inactive_dag
from trace_platform.domain.alike import instead
from trace_platform.domain.errors import NotFound
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags, overview
from trace_platform.state.dags import ActiveJob


async def find_job(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> ActiveJob:
    """The deployed definition."""
    job = await dags.active_job(tx, org_id, dag_name, job_name)
    if job is None:
        await refuse_inactive_dag(tx, org_id, dag_name)
        raise _unknown(dag_name, job_name, await overview.job_names(tx, org_id))
    return job


def _unknown(dag_name: str, job_name: str, known: list[str]) -> NotFound:
    if not known:
        return NotFound(
            f"there is no DAG '{dag_name}'", hint="no DAG is deployed yet: trace deploy FILE"
        )
    name = f"{dag_name}.{job_name}"
    has_dag = any(each.startswith(f"{dag_name}.") for each in known)
    return NotFound(
        f"there is no job '{name}'" if has_dag else f"there is no DAG '{dag_name}'",
        hint=instead(name, known, most=20),
    )
