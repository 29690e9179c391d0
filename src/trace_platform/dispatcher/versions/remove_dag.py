"""No version of a DAG is active any more: its sources finish and end, its names stand for nothing.

Its data, its versions and what its jobs were given are kept: deployed again, it finds all of it and
is given what came meanwhile. Only purging deletes data.
"""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from trace_platform.dispatcher.versions.refuse_unknown_dag import refuse_unknown_dag
from trace_platform.domain.errors import Conflict, DatasetInUse, DeployInProgress
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import (
    backfills,
    dags,
    datasets,
    deploys,
    generations,
    locks,
    plans,
    registry,
)
from trace_platform.wire.plan import (
    Amount,
    Reader,
    RemovalPlan,
    RemovalRequest,
    RemovalResponse,
)

_SAID = "its DAG was removed"


async def plan_removal(state: Database, org_id: UUID, dag_name: str) -> RemovalPlan:
    """Changes nothing."""
    async with state.transaction() as tx:
        return await _plan(tx, org_id, dag_name)


async def remove_dag(
    state: Database, org_id: UUID, dag_name: str, request: RemovalRequest
) -> RemovalResponse:
    """Raise DatasetInUse while another DAG reads it, DeployInProgress while a version is being
    built."""
    async with state.transaction() as tx:
        await locks.deploys(tx, org_id)
        await locks.routing(tx)
        plan = await _plan(tx, org_id, dag_name)
        _refuse(plan, request)
        deploy_id = await _remove(tx, org_id, plan)
    return RemovalResponse(
        dag_name=dag_name,
        dag_version=plan.dag_version,
        deploy_id=deploy_id,
        unpublished=plan.unpublishes,
        tasks=plan.tasks,
        backfills=plan.backfills,
    )


async def _plan(tx: Tx, org_id: UUID, dag_name: str) -> RemovalPlan:
    active = await _version(tx, org_id, dag_name)
    underway = await deploys.building_of(tx, org_id, dag_name)
    jobs = await dags.version_jobs(tx, active)
    ids = [job.generation_id for job in jobs.values()]
    amounts = [Amount(**size.amount) for size in await plans.sizes(tx, active)]
    return RemovalPlan(
        dag_name=dag_name,
        dag_version=active,
        sources=[name for name, job in jobs.items() if job.activation == "source"],
        unpublishes=sorted(await datasets.names_of_dag(tx, org_id, dag_name)),
        tasks=await generations.open_tasks(tx, ids),
        backfills=len(await backfills.alive_of_dag(tx, org_id, dag_name)),
        keeps=Amount(
            partitions=sum(each.partitions for each in amounts),
            rows=sum(each.rows for each in amounts),
            bytes=sum(each.bytes for each in amounts),
        ),
        readers=[
            Reader(**asdict(each))
            for each in await generations.readers_of_dag(tx, org_id, dag_name)
        ],
        building=underway.to_version if underway else None,
    )


async def _version(tx: Tx, org_id: UUID, dag_name: str) -> UUID:
    """The active one. Of a DAG whose first build came to nothing the one that was tried last: its
    name and its data are there all the same."""
    active = await dags.active_version(tx, org_id, dag_name)
    if active is not None:
        return active
    newest = await deploys.newest(tx, org_id, dag_name)
    if newest is None or newest.kind == "removal" or newest.status == "Building":
        await refuse_unknown_dag(tx, org_id, dag_name)
    return newest.target


def _refuse(plan: RemovalPlan, request: RemovalRequest) -> None:
    name = plan.dag_name
    if plan.building is not None:
        raise DeployInProgress(
            f"DAG '{name}' cannot be removed while version {str(plan.building)[:8]} of it is built",
            hint=f"give that up first: trace rollback {name}",
        )
    if plan.readers:
        said = ", ".join(f"{r.dag_name}.{r.job_name} reads {r.dataset}" for r in plan.readers)
        raise DatasetInUse(
            f"DAG '{name}' cannot be removed: {said}",
            hint="remove what reads it first, or have it read something else",
        )
    if request.dag_version not in (None, plan.dag_version):
        raise Conflict(
            f"another version of DAG '{name}' is active by now: {str(plan.dag_version)[:8]}",
            hint="look again, and say so again",
        )


async def _remove(tx: Tx, org_id: UUID, plan: RemovalPlan) -> UUID:
    """The caller holds the locks of deploys and of routing."""
    name = plan.dag_name
    jobs = (await dags.version_jobs(tx, plan.dag_version)).values()
    deploy_id = await deploys.begin(
        tx, org_id, name, "removal", plan.dag_version, None, "CutOver", []
    )
    for backfill_id in await backfills.alive_of_dag(tx, org_id, name):
        await backfills.finish(tx, backfill_id, "Canceled", _SAID)
    await dags.deactivate(tx, org_id, name)
    # Tasks before datasets, in the order in which a completion locks them.
    await generations.supersede_tasks(tx, [job.generation_id for job in jobs], _SAID)
    await datasets.unpublish_all(tx, org_id, name)
    await registry.set_column_lineage(tx, org_id, name, [])
    await generations.subscribe(tx, org_id)
    return deploy_id
