"""There is no such DAG, or no such job, and which there are."""

from __future__ import annotations

from typing import NoReturn
from uuid import UUID

from trace_platform.domain.alike import instead
from trace_platform.domain.errors import NotFound
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags, deploys, overview


async def check_known(
    tx: Tx, org_id: UUID, dag_name: str | None, job_name: str | None = None
) -> None:
    """For a list that is empty: is it of something that is deployed?"""
    if dag_name is not None and dag_name not in await dags.active_names(tx, org_id):
        await refuse_unknown_dag(tx, org_id, dag_name)
    if job_name is None:
        return
    known = [name.split(".", 1) for name in await overview.job_names(tx, org_id)]
    names = [job for dag, job in known if dag_name in (None, dag)]
    if job_name not in names:
        whose = "no DAG has a" if dag_name is None else f"{dag_name} has no"
        hint = instead(job_name, sorted(set(names)), most=20)
        raise NotFound(f"{whose} job '{job_name}'", hint=hint)


async def refuse_unknown_dag(tx: Tx, org_id: UUID, dag_name: str) -> NoReturn:
    await refuse_inactive_dag(tx, org_id, dag_name)
    deployed = await dags.active_names(tx, org_id)
    raise NotFound(
        f"there is no DAG '{dag_name}'", hint=instead(dag_name, deployed, most=20, said="deployed")
    )


async def refuse_inactive_dag(tx: Tx, org_id: UUID, dag_name: str) -> None:
    """Of a DAG that has versions and none that is active: say why."""
    if await dags.active_version(tx, org_id, dag_name) is not None:
        return
    newest = await deploys.newest(tx, org_id, dag_name)
    if newest is None:
        return
    if newest.status == "Building":
        raise NotFound(
            f"no version of DAG '{dag_name}' is active yet: its first one is being built",
            hint=f"trace deploys {dag_name} shows how far it is",
        )
    if newest.kind == "removal":
        raise NotFound(
            f"DAG '{dag_name}' was removed: no version of it is active",
            hint=f"deploy its file; trace dag versions {dag_name} has what was deployed",
        )
    raise NotFound(
        f"DAG '{dag_name}' was never built: no version of it is active",
        hint=f"trace deploys {dag_name} says why; deploy its file again to go on where it stopped,"
        f" or take it away with trace dag remove {dag_name}",
    )
