"""An earlier version becomes the active one again, in one transaction."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.versions.advance_deploys import give_up
from trace_platform.dispatcher.versions.cut_over import activate
from trace_platform.dispatcher.versions.refuse_unknown_dag import refuse_unknown_dag
from trace_platform.domain.errors import (
    BadInput,
    Conflict,
    DatasetInUse,
    GenerationPurged,
    NotFound,
)
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags, datasets, deploys, generations, locks
from trace_platform.state.dags import VersionJob
from trace_platform.state.deploys import Deploy
from trace_platform.wire.control import RollbackResponse
from trace_platform.wire.plan import Reader, RollbackPlan, RollbackRequest

NOTHING_SAID = RollbackRequest()


async def roll_back(
    state: Database, org_id: UUID, dag_name: str, request: RollbackRequest = NOTHING_SAID
) -> RollbackResponse:
    """A deploy that is being built is given up; without a version to go to, that is all."""
    async with state.transaction() as tx:
        await locks.deploys(tx, org_id)
        active = await dags.active_version(tx, org_id, dag_name)
        repeated = await _repeated(tx, org_id, dag_name, active, request.instead_of)
        if repeated is not None:
            return repeated
        await locks.routing(tx)
        given_up = await _give_up_building(tx, org_id, dag_name)
        if given_up is not None and (active is None or request.to_version in (None, active)):
            return RollbackResponse(
                dag_name=dag_name, dag_version=active, instead_of=given_up, deploy_id=None
            )
        if active is None:
            await refuse_unknown_dag(tx, org_id, dag_name)
        target = await _target(tx, org_id, dag_name, active, request.to_version)
        deploy = await _begin(tx, org_id, dag_name, active, target)
        await activate(tx, deploy)
    return RollbackResponse(
        dag_name=dag_name, dag_version=target, instead_of=active, deploy_id=deploy.id
    )


async def plan_rollback(
    state: Database, org_id: UUID, dag_name: str, to_version: UUID | None
) -> RollbackPlan:
    """What a rollback would do now. Changes nothing."""
    async with state.transaction() as tx:
        active = await dags.active_version(tx, org_id, dag_name)
        underway = await deploys.building_of(tx, org_id, dag_name)
        gives_up = underway.to_version if underway else None
        if underway and (active is None or to_version in (None, active)):
            return RollbackPlan(dag_name=dag_name, instead_of=gives_up, to_version=active)
        if active is None:
            await refuse_unknown_dag(tx, org_id, dag_name)
        target = await _target(tx, org_id, dag_name, active, to_version)
        await _servable(tx, org_id, dag_name, active, target)
        now = {each.name for each in await dags.publishes(tx, active)}
        then = {each.name for each in await dags.publishes(tx, target)}
        gone = sorted(now - then)
        readers = await datasets.readers_by_name(tx, org_id, dag_name, gone)
    return RollbackPlan(
        dag_name=dag_name,
        instead_of=gives_up or active,
        to_version=target,
        unpublishes=gone,
        readers=[
            Reader(dag_name=r.dag_name, job_name=r.job_name, dataset=r.dataset_name)
            for r in readers
        ],
    )


async def _target(
    tx: Tx, org_id: UUID, dag_name: str, active: UUID, to_version: UUID | None
) -> UUID:
    target = to_version or await deploys.version_before(tx, org_id, dag_name, active)
    if target is None:
        raise BadInput(
            f"DAG '{dag_name}' had no version before this one",
            hint=f"trace dag versions {dag_name} shows what there is",
        )
    return target


async def _repeated(
    tx: Tx, org_id: UUID, dag_name: str, active: UUID | None, instead_of: UUID | None
) -> RollbackResponse | None:
    """The answer that got lost, when this was done before. Raise Conflict when the version that
    shall go is neither active nor being built."""
    underway = await deploys.building_of(tx, org_id, dag_name)
    if instead_of in (None, active) or (underway and underway.to_version == instead_of):
        return None
    last = await deploys.newest(tx, org_id, dag_name)
    if last is not None and instead_of in _gone(last):
        rolled_back = last.kind == "rollback"
        return RollbackResponse(
            dag_name=dag_name,
            dag_version=active,
            instead_of=instead_of,
            deploy_id=last.id if rolled_back else None,
        )
    raise Conflict(
        f"version {instead_of} of DAG '{dag_name}' is not active", hint="trace deploys shows why"
    )


def _gone(deploy: Deploy) -> tuple[UUID | None, ...]:
    """The version that gave way, or that was given up."""
    if deploy.kind == "rollback":
        return (deploy.from_version,)
    return (deploy.to_version,) if deploy.status == "Canceled" else ()


async def _give_up_building(tx: Tx, org_id: UUID, dag_name: str) -> UUID | None:
    underway = await deploys.building_of(tx, org_id, dag_name)
    if underway is None:
        return None
    await give_up(tx, underway, "Canceled", "it was rolled back")
    return underway.target


async def _begin(tx: Tx, org_id: UUID, dag_name: str, active: UUID, target: UUID) -> Deploy:
    jobs = await _servable(tx, org_id, dag_name, active, target)
    now = {job.generation_id for job in (await dags.version_jobs(tx, active)).values()}
    back = sorted({job.generation_id for job in jobs.values()} - now)
    deploy_id = await deploys.begin(
        tx, org_id, dag_name, "rollback", active, target, "CutOver", back
    )
    await generations.revive_tasks(tx, back)
    deploy = await deploys.get(tx, org_id, deploy_id)
    assert deploy is not None, "it was just begun"
    return deploy


async def _servable(
    tx: Tx, org_id: UUID, dag_name: str, active: UUID, target: UUID
) -> dict[str, VersionJob]:
    """The jobs of the version, all of whose data must be there."""
    version = await dags.get_version(tx, org_id, target)
    if version is None or version.dag_name != dag_name:
        raise NotFound(
            f"DAG '{dag_name}' has no version {target}", hint=f"trace dag versions {dag_name}"
        )
    if target == active:
        raise BadInput(f"version {target} of DAG '{dag_name}' is active already")
    jobs = await dags.version_jobs(tx, target)
    purged = [name for name, job in jobs.items() if job.purged_at is not None]
    if purged:
        raise GenerationPurged(
            f"the data of {', '.join(purged)} in version {target} was purged",
            hint="deploy its file again: what is missing is built anew",
        )
    published = [each.name for each in await dags.publishes(tx, target)]
    taken = await datasets.names_taken(tx, org_id, dag_name, published)
    if taken:
        raise DatasetInUse(
            f"the dataset '{taken[0].name}' of version {target} is published by the DAG "
            f"'{taken[0].dag_name}' by now",
            hint="let that one publish under another name first",
        )
    unbuilt = [name for name, job in jobs.items() if job.built_at is None]
    if unbuilt:
        raise BadInput(
            f"version {target} was never active: {', '.join(unbuilt)} is not built",
            hint="deploy its file",
        )
    return jobs
