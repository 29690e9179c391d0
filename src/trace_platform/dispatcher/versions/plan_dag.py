"""What a deploy of this file would do now: nothing happens."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from trace_platform.dag.check.check_dag import BUILT_IN, NO_CODE
from trace_platform.dag.model.dag import Dag
from trace_platform.dispatcher.abis.check_abis import refuse_unknown_abis
from trace_platform.dispatcher.versions.adopt_generations import adopt_generations
from trace_platform.dispatcher.versions.changed_columns import with_columns
from trace_platform.dispatcher.versions.check_sql import check_sql
from trace_platform.dispatcher.versions.find_change import Change, find_change
from trace_platform.dispatcher.versions.find_lacks import find_lacks
from trace_platform.dispatcher.versions.read_dag import read_dag
from trace_platform.dispatcher.versions.refuse_cycles import refuse_cycles
from trace_platform.dispatcher.versions.refuse_names import refuse_names
from trace_platform.dispatcher.versions.refuse_unfit_schema import refuse_unfit_schema
from trace_platform.domain.own_code import Code
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags, datasets, derived_lineage, generations, plans
from trace_platform.wire.plan import Amount, JobChange, Plan, Reader


async def plan_dag(
    state: Database,
    org_id: UUID,
    yaml: str,
    file: str,
    runtimes: Runtimes = BUILT_IN,
    code: Code = NO_CODE,
) -> Plan:
    checked = await read_dag(yaml, file, runtimes, code)
    checked = await check_sql(state, org_id, checked, yaml, runtimes, code)
    dag = checked.dag
    async with state.transaction() as tx:
        await refuse_unknown_abis(tx, org_id, checked)
        await adopt_generations(
            tx, org_id, await dags.active_version(tx, org_id, dag.name), runtimes
        )
        plan = await plan_in(tx, org_id, dag, file)
        await refuse_names(tx, org_id, checked, plan.jobs)
        await refuse_cycles(tx, org_id, dag)
        built = {job.job for job in plan.builds}
        await refuse_unfit_schema(tx, checked, plan.base_version, built)
        lacks = await find_lacks(tx, org_id, checked, runtimes)
        before = await derived_lineage.of_version(tx, plan.base_version)
        return plan.model_copy(
            update={
                "warnings": [*checked.said_warnings, *lacks],
                "jobs": with_columns(dag, plan.jobs, before, checked.derivations),
            }
        )


async def plan_in(tx: Tx, org_id: UUID, dag: Dag, file: str) -> Plan:
    """With the sizes of what is built, what stays, and who else is concerned."""
    base = await dags.active_version(tx, org_id, dag.name)
    change = await change_in(tx, org_id, dag, base)
    built = [job.job for job in change.jobs if job.builds]
    sizes = {size.job_name: Amount(**size.amount) for size in await plans.sizes(tx, base)}
    return Plan(
        dag_name=dag.name,
        file=file,
        base_version=base,
        content_hash=dag.content_hash,
        jobs=[_sized(job, sizes) for job in change.jobs],
        publishes=change.publishes,
        readers=await _readers(tx, org_id, dag.name, built, change),
        slots=await plans.slots(tx),
    )


async def _readers(
    tx: Tx, org_id: UUID, dag_name: str, built: list[str], change: Change
) -> list[Reader]:
    """Jobs of other DAGs that read what is built anew, or a name that comes to stand for another
    dataset."""
    found = [Reader(**asdict(each)) for each in await plans.readers(tx, org_id, dag_name, built)]
    moved = [each.dataset for each in change.publishes if each.action == "moved"]
    for each in await datasets.readers_by_name(tx, org_id, dag_name, moved):
        reader = Reader(dag_name=each.dag_name, job_name=each.job_name, dataset=each.dataset_name)
        if reader not in found:
            found.append(reader)
    return found


async def change_in(tx: Tx, org_id: UUID, dag: Dag, base: UUID | None) -> Change:
    return find_change(
        dag,
        await dags.version_jobs(tx, base),
        await generations.kept(tx, org_id, dag.name),
        await plans.published(tx, base),
    )


def _sized(job: JobChange, sizes: dict[str, Amount]) -> JobChange:
    return job.model_copy(update={"holds": sizes.get(job.job, Amount())})
