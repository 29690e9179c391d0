"""From YAML to an active DAG version, in one transaction."""

from __future__ import annotations

import asyncio
from uuid import UUID

from trace_platform.dispatcher.check_dag import BUILT_IN, check_dag
from trace_platform.domain.errors import InvalidDag
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags, datasets
from trace_platform.wire.control import DeployResponse
from trace_platform.wire.dag import PRIORITY_RANK, Backpressure, Dag, Job, JobOutputRef
from trace_platform.wire.dag_yaml import DagErrors, invalid_dag

DatasetIds = dict[tuple[str, int], UUID]


async def deploy_dag(
    state: Database, org_id: UUID, yaml: str, file: str, runtimes: Runtimes = BUILT_IN
) -> DeployResponse:
    """The same content twice is one version. Raise InvalidDag with every error and its line."""
    try:
        # In a thread: a large file takes seconds, and heartbeats must not wait for it.
        dag = await asyncio.to_thread(check_dag, yaml, runtimes)
    except DagErrors as found:
        raise invalid_dag(file, found.errors) from None
    async with state.transaction() as tx:
        await dags.lock_deploys(tx, org_id)
        version, new = await dags.ensure_version(tx, org_id, dag.name, dag.content_hash, yaml)
        ids = await _ensure_datasets(tx, org_id, dag)
        added = await _ensure_jobs(tx, org_id, dag, version, ids) if new else []
        await _publish(tx, org_id, dag, ids)
        await dags.activate(tx, org_id, dag.name, version)
    return DeployResponse(
        dag_name=dag.name,
        dag_version=version,
        new=new,
        jobs=[j.name for j in dag.jobs],
        added=added,
    )


async def _ensure_datasets(tx: Tx, org_id: UUID, dag: Dag) -> DatasetIds:
    ids: DatasetIds = {}
    for job in dag.jobs:
        for index in range(len(job.outputs)):
            row = await datasets.ensure(tx, org_id, dag.name, job.name, index)
            ids[job.name, index] = row["uuid"]
    return ids


async def _ensure_jobs(tx: Tx, org_id: UUID, dag: Dag, version: UUID, ids: DatasetIds) -> list[str]:
    """The names of the jobs whose definition is new."""
    added = []
    for job in dag.jobs:
        job_id, new = await dags.ensure_job(tx, org_id, dag.name, _job_row(dag, job))
        if new:
            added.append(job.name)
            await _add_edges(tx, org_id, dag, job, job_id, ids)
        await dags.add_to_version(tx, version, job_id)
    return added


async def _add_edges(
    tx: Tx, org_id: UUID, dag: Dag, job: Job, job_id: UUID, ids: DatasetIds
) -> None:
    for index, edge in enumerate(job.inputs):
        if isinstance(edge.source, JobOutputRef):
            dataset_uuid = _output(dag, edge.source, ids)
        else:
            found = await datasets.find_published(tx, org_id, edge.source.dataset)
            if found is None:
                raise InvalidDag(
                    f"job '{job.name}' reads the dataset '{edge.source.dataset}', "
                    "which nobody publishes",
                    hint="deploy the DAG that publishes it first",
                )
            dataset_uuid = found["uuid"]
        await dags.add_edge(tx, job_id, index, dataset_uuid, edge.where)


async def _publish(tx: Tx, org_id: UUID, dag: Dag, ids: DatasetIds) -> None:
    for name in dag.publish:
        found = await datasets.find_published(tx, org_id, name)
        if found is not None and found["dag_name"] != dag.name:
            raise InvalidDag(
                f"the dataset '{name}' is published by the DAG '{found['dag_name']}'",
                hint="a dataset has one producer: choose another name",
            )
    names = {name: _output(dag, p.source, ids) for name, p in dag.publish.items()}
    await datasets.publish_as(tx, org_id, dag.name, names)


def _output(dag: Dag, ref: JobOutputRef, ids: DatasetIds) -> UUID:
    job = next(job for job in dag.jobs if job.name == ref.job)
    index = job.output_index(ref.output)
    assert index is not None, "check_dag refuses dangling references"
    return ids[ref.job, index]


def _job_row(dag: Dag, job: Job) -> dict[str, object]:
    row = dag.effective(job)
    fields = (
        "name", "activation", "source", "runtime", "operator", "outputs", "config",
        "max_attempts", "timeout_seconds", "heartbeat_timeout_seconds",
    )  # fmt: skip
    return {field: row[field] for field in fields} | {
        "config_hash": dag.job_hash(job),
        "priority": PRIORITY_RANK[row["priority"]],
        "execution_strategy": job.strategy,
        "max_concurrency": job.max_concurrency,
        **_pressure_row(job.backpressure),
    }


def _pressure_row(limits: Backpressure | None) -> dict[str, object]:
    return {
        "max_queue_depth": limits.max_queue_depth if limits else None,
        "max_queue_age_s": limits.max_queue_age if limits else None,
        "pressure_mode": limits.mode if limits else None,
    }
