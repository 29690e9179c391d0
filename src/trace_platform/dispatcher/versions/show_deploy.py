"""How far a deploy is, and how earlier ones ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from uuid import UUID

from trace_platform.dispatcher.versions.refuse_unknown_dag import check_known
from trace_platform.domain.errors import NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import deploys
from trace_platform.state.deploys import Deploy, JobProgress
from trace_platform.wire.plan import DeployList, DeployProgress, DeployStatus


async def list_deploys(
    state: Database, org_id: UUID, dag_name: str | None, limit: int
) -> DeployList:
    async with state.transaction() as tx:
        rows = await deploys.listing(tx, org_id, dag_name, limit)
        if not rows:
            await check_known(tx, org_id, dag_name)
    return DeployList(deploys=[deploy_status(deploy) for deploy in rows])


async def show_deploy(state: Database, org_id: UUID, deploy_id: UUID) -> DeployStatus:
    async with state.transaction() as tx:
        deploy = await deploys.get(tx, org_id, deploy_id)
        if deploy is None:
            raise NotFound(f"there is no deploy {deploy_id}", hint="trace deploys")
        progress = await deploys.progress(tx, deploy)
    return deploy_status(deploy, progress)


def deploy_status(deploy: Deploy, progress: Sequence[JobProgress] = ()) -> DeployStatus:
    return DeployStatus(
        deploy_id=deploy.id,
        dag_name=deploy.dag_name,
        kind=deploy.kind,
        from_version=deploy.from_version,
        to_version=deploy.to_version,
        status=deploy.status,
        error=deploy.error,
        started_at=deploy.started_at,
        ended_at=deploy.ended_at,
        progress=[DeployProgress(**asdict(job)) for job in progress],
    )
