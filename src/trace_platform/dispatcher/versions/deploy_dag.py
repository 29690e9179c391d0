"""From YAML to a version that is built beside the active one, in one transaction.

When there is nothing to build it is active at once; else `advance_deploys` has it cut over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple
from uuid import UUID, uuid4

from trace_platform.dag.check.check_dag import BUILT_IN, NO_CODE, CheckedDag
from trace_platform.dag.model.dag import PRIORITY_RANK, Dag, Job, JobOutputRef
from trace_platform.dag.model.fingerprint import definition_hash, fingerprints
from trace_platform.dag.model.source import WebhookSource
from trace_platform.dispatcher.abis.check_abis import refuse_unknown_abis
from trace_platform.dispatcher.versions.adopt_generations import adopt_generations
from trace_platform.dispatcher.versions.build_stage import build_stage, unfinished
from trace_platform.dispatcher.versions.check_sql import check_sql
from trace_platform.dispatcher.versions.cut_over import cut_over
from trace_platform.dispatcher.versions.find_change import publish_metadata
from trace_platform.dispatcher.versions.find_lacks import find_lacks
from trace_platform.dispatcher.versions.plan_dag import change_in, plan_in
from trace_platform.dispatcher.versions.read_dag import read_dag
from trace_platform.dispatcher.versions.refuse_cycles import refuse_cycles
from trace_platform.dispatcher.versions.refuse_names import refuse_names
from trace_platform.dispatcher.versions.refuse_unfit_schema import refuse_unfit_schema
from trace_platform.dispatcher.versions.refuse_unknown_pii import refuse_unknown_pii
from trace_platform.domain.attempts import WITHOUT_END
from trace_platform.domain.errors import DatasetInUse, DeployInProgress, StalePlan
from trace_platform.domain.own_code import Code, canonical, code_of
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import (
    dags,
    datasets,
    deploys,
    derived_lineage,
    generations,
    locks,
    operator_code,
)
from trace_platform.state.dags import NewJob
from trace_platform.state.deploys import Deploy
from trace_platform.wire.control import DeployResponse

# An attempt of a source that never ends gives way to another before its token does.
ALWAYS_ON_S = 82_800.0

DatasetIds = dict[tuple[str, int], UUID]


class Installed(NamedTuple):
    """A version whose rows are all there; nothing reads them yet."""

    version: UUID
    new: bool
    # Jobs whose definition is new.
    added: list[str]


async def deploy_dag(
    state: Database,
    org_id: UUID,
    yaml: str,
    file: str,
    runtimes: Runtimes = BUILT_IN,
    plan_hash: str | None = None,
    code: Code = NO_CODE,
) -> DeployResponse:
    """The same content twice is one version. Raise InvalidDag with every error and its line,
    StalePlan when this is not what was planned any more."""
    checked = await read_dag(yaml, file, runtimes, code)
    checked = await check_sql(state, org_id, checked, yaml, runtimes, code)
    async with state.transaction() as tx:
        await refuse_unknown_abis(tx, org_id, checked)
        await _keep_code(tx, checked.dag, code)
        done = await _deploy(tx, org_id, checked, yaml, runtimes, plan_hash)
        lacks = await find_lacks(tx, org_id, checked, runtimes)
        return done.model_copy(update={"warnings": [*done.warnings, *lacks]})


async def _keep_code(tx: Tx, dag: Dag, code: Code) -> None:
    """What workers will ask for, by the digests that the DAG's jobs name."""
    for job in dag.jobs:
        ref = code_of(job.operator, job.config)
        if ref is not None and ref.digest is not None:
            await operator_code.keep(tx, ref.digest, canonical(code.of(ref)))


async def _deploy(
    tx: Tx,
    org_id: UUID,
    checked: CheckedDag,
    yaml: str,
    runtimes: Runtimes,
    plan_hash: str | None,
) -> DeployResponse:
    dag = checked.dag
    await locks.deploys(tx, org_id)
    underway = await _same_underway(tx, org_id, dag)
    if underway is not None:
        return _response(checked, underway.target, underway, [], await _builds(tx, underway))
    active = await dags.active_version(tx, org_id, dag.name)
    if active is not None and await _is_content(tx, org_id, active, dag):
        await _keep_lineage(tx, active, checked)
        return _response(checked, active, None, [], set())
    await adopt_generations(tx, org_id, active, runtimes)
    await _refuse_stale(tx, org_id, dag, checked.file, plan_hash)
    await refuse_names(tx, org_id, checked, (await change_in(tx, org_id, dag, active)).jobs)
    await refuse_cycles(tx, org_id, dag)
    installed = await _install(tx, org_id, dag, yaml)
    await _keep_lineage(tx, installed.version, checked)
    deploy = await _begin(tx, org_id, checked, active, installed.version)
    return _response(
        checked,
        installed.version,
        deploy,
        installed.added,
        await _builds(tx, deploy),
        new=installed.new,
    )


async def _refuse_stale(tx: Tx, org_id: UUID, dag: Dag, file: str, plan_hash: str | None) -> None:
    if plan_hash is None:
        return
    plan = await plan_in(tx, org_id, dag, file)
    if plan.plan_hash != plan_hash:
        raise StalePlan(
            f"the plan does not hold any more: DAG '{dag.name}' changed since it was made",
            hint="make another with trace plan",
        )


async def _same_underway(tx: Tx, org_id: UUID, dag: Dag) -> Deploy | None:
    """The deploy of this very content, when it is being built."""
    underway = await deploys.building_of(tx, org_id, dag.name)
    if underway is None:
        return None
    if not await _is_content(tx, org_id, underway.target, dag):
        raise DeployInProgress(
            f"another version of DAG '{dag.name}' is being built since "
            f"{underway.started_at:%H:%M:%S} UTC",
            hint=f"wait for it (trace deploys {dag.name}), or give it up: "
            f"trace rollback {dag.name}",
        )
    return underway


async def _is_content(tx: Tx, org_id: UUID, version: UUID, dag: Dag) -> bool:
    stored = await dags.get_version(tx, org_id, version)
    return stored is not None and stored.content_hash == dag.content_hash


async def _install(tx: Tx, org_id: UUID, dag: Dag, yaml: str) -> Installed:
    version, new = await dags.ensure_version(tx, org_id, dag.name, dag.content_hash, yaml)
    ids = await _dataset_ids(tx, org_id, dag)
    made = await generations.ensure(
        tx,
        org_id,
        dag.name,
        fingerprints(dag),
        {job.name: len(job.outputs) for job in dag.jobs},
        ids,
    )
    await datasets.say_delivery_columns(
        tx, [made[job.name] for job in dag.jobs if isinstance(job.source, WebhookSource)]
    )
    await _refuse_read_names(tx, org_id, dag)
    added, jobs = [], {}
    for job in dag.jobs:
        job_id, is_new = await dags.ensure_job(tx, org_id, dag.name, _new_job(dag, job))
        if is_new:
            added.append(job.name)
            await _add_edges(tx, org_id, dag, job, job_id, ids)
        jobs[job_id] = made[job.name]
    await dags.set_jobs(tx, version, jobs)
    published = {
        name: (await _published(tx, org_id, dag, name, ids), publish_metadata(dag, name))
        for name in dag.publish
    }
    await dags.set_publishes(tx, version, published)
    await refuse_unknown_pii(tx, dag, version)
    return Installed(version, new, added)


async def _keep_lineage(tx: Tx, version: UUID, checked: CheckedDag) -> None:
    """Also of a version that is deployed again: more columns of what it reads may be known now."""
    jobs = await dags.version_jobs(tx, version)
    await derived_lineage.keep(
        tx,
        version,
        {(jobs[job].job_id, index): found for (job, index), found in checked.derivations.items()},
    )


async def _published(tx: Tx, org_id: UUID, dag: Dag, name: str, ids: DatasetIds) -> UUID:
    """The dataset behind a name: a job's output, or one that several jobs write."""
    publish = dag.publish[name]
    if publish.storage == "buffered":
        return await datasets.ensure_shared(tx, org_id, dag.name, name)
    return _output(dag, publish.sources[0], ids)


async def _dataset_ids(tx: Tx, org_id: UUID, dag: Dag) -> DatasetIds:
    known = await datasets.ids_of_dag(tx, org_id, dag.name)
    asked = [(job.name, index) for job in dag.jobs for index in range(len(job.outputs))]
    return {place: known.get(place) or uuid4() for place in asked}


async def _begin(
    tx: Tx, org_id: UUID, checked: CheckedDag, active: UUID | None, version: UUID
) -> Deploy:
    dag_name = checked.dag.name
    await locks.routing(tx)
    # With the lock: what is committed stays so until commits see what this version declares.
    await refuse_unfit_schema(tx, checked, version)
    before = {job.generation_id for job in (await dags.version_jobs(tx, active)).values()}
    after = {job.generation_id for job in (await dags.version_jobs(tx, version)).values()}
    building = sorted(after - before)
    deploy_id = await deploys.begin(
        tx, org_id, dag_name, "deploy", active, version, "Building", building
    )
    await generations.subscribe(tx, org_id)
    if await _is_built(tx, org_id, deploy_id):
        await cut_over(tx, deploy_id)
    return await _found(tx, org_id, deploy_id)


async def _is_built(tx: Tx, org_id: UUID, deploy_id: UUID) -> bool:
    """Whether there was nothing to do; else what comes first has begun."""
    deploy = await _found(tx, org_id, deploy_id)
    waiting: Sequence[UUID] = deploy.building
    done = True
    while waiting and done:
        waiting = await build_stage(tx, deploy, waiting)
        deploy = await _found(tx, org_id, deploy_id)
        done = (await unfinished(tx, deploy)).done
    return done


async def _found(tx: Tx, org_id: UUID, deploy_id: UUID) -> Deploy:
    deploy = await deploys.get(tx, org_id, deploy_id)
    assert deploy is not None, "it was just begun"
    return deploy


async def _builds(tx: Tx, deploy: Deploy) -> set[str]:
    """The jobs whose data is built."""
    jobs = (await dags.version_jobs(tx, deploy.target)).values()
    return {job.name for job in jobs if job.generation_id in deploy.building}


async def _add_edges(
    tx: Tx, org_id: UUID, dag: Dag, job: Job, job_id: UUID, ids: DatasetIds
) -> None:
    for index, edge in enumerate(job.inputs):
        name = None
        if isinstance(edge.source, JobOutputRef):
            dataset_uuid = _output(dag, edge.source, ids)
        elif edge.source.dataset in dag.publish:
            name = edge.source.dataset
            dataset_uuid = await _published(tx, org_id, dag, name, ids)
        else:
            name = edge.source.dataset
            found = await datasets.find_published(tx, org_id, name)
            assert found is not None, "refuse_names has looked"
            dataset_uuid = found.uuid
        await dags.add_edge(tx, job_id, index, dataset_uuid, name, edge.where, trigger=edge.trigger)


async def _refuse_read_names(tx: Tx, org_id: UUID, dag: Dag) -> None:
    names = await datasets.names_of_dag(tx, org_id, dag.name)
    gone = names.keys() - dag.publish.keys()
    readers = await datasets.readers_by_name(tx, org_id, dag.name, sorted(gone))
    if readers:
        said = ", ".join(f"{r.dag_name}.{r.job_name}" for r in readers)
        name = readers[0].dataset_name
        raise DatasetInUse(
            f"the dataset '{name}' would not be published any more, and it is read by {said}",
            hint="change what reads it first, or go on publishing it under this name",
        )


def _output(dag: Dag, ref: JobOutputRef, ids: Mapping[tuple[str, int], UUID]) -> UUID:
    job = next(job for job in dag.jobs if job.name == ref.job)
    index = job.output_index(ref.output)
    assert index is not None, "check_dag refuses dangling references"
    return ids[ref.job, index]


def _response(
    checked: CheckedDag,
    version: UUID,
    deploy: Deploy | None,
    added: list[str],
    builds: set[str],
    *,
    new: bool = False,
) -> DeployResponse:
    dag = checked.dag
    return DeployResponse(
        dag_name=dag.name,
        dag_version=version,
        deploy_id=deploy.id if deploy else None,
        status=_status(deploy),
        replaces=deploy.from_version if deploy else None,
        new=new,
        jobs=[job.name for job in dag.jobs],
        added=added,
        builds=[job.name for job in dag.jobs if job.name in builds],
        warnings=checked.said_warnings,
    )


def _status(deploy: Deploy | None) -> Literal["CutOver", "Building", "Unchanged"]:
    if deploy is None:
        return "Unchanged"
    return "Building" if deploy.status == "Building" else "CutOver"


def _new_job(dag: Dag, job: Job) -> NewJob:
    stored, limits = dag.effective(job), job.backpressure
    return NewJob(
        name=stored["name"],
        config_hash=definition_hash(dag, job),
        activation=stored["activation"],
        source=stored["source"],
        runtime=stored["runtime"],
        operator=stored["operator"],
        execution_strategy=job.strategy,
        outputs=stored["outputs"],
        config=stored["config"],
        priority=PRIORITY_RANK[stored["priority"]],
        max_attempts=WITHOUT_END if job.always_on else stored["max_attempts"],
        timeout_seconds=ALWAYS_ON_S if job.always_on else stored["timeout_seconds"],
        heartbeat_timeout_seconds=stored["heartbeat_timeout_seconds"],
        max_concurrency=1 if job.always_on else job.max_concurrency,
        max_queue_depth=limits.max_queue_depth if limits else None,
        max_queue_age_s=limits.max_queue_age if limits else None,
        pressure_mode=limits.mode if limits else None,
        definition=stored,
    )
