"""How far a deploy is, and how earlier ones ended."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from trace_platform.dispatcher.versions.refuse_unknown_dag import check_known
from trace_platform.domain.errors import NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row
from trace_platform.state import deploys
from trace_platform.wire.plan import DeployList, DeployProgress, DeployStatus


async def list_deploys(
    state: Database, org_id: UUID, dag_name: str | None, limit: int
) -> DeployList:
    async with state.transaction() as tx:
        rows = await deploys.listing(tx, org_id, dag_name, limit)
        if not rows:
            await check_known(tx, org_id, dag_name)
    return DeployList(deploys=[DeployStatus(**deploy_fields(row)) for row in rows])


async def show_deploy(state: Database, org_id: UUID, deploy_id: UUID) -> DeployStatus:
    async with state.transaction() as tx:
        row = await deploys.get(tx, org_id, deploy_id)
        if row is None:
            raise NotFound(f"there is no deploy {deploy_id}", hint="trace deploys")
        progress = [DeployProgress(**job) for job in await deploys.progress(tx, row)]
    return DeployStatus(**deploy_fields(row), progress=progress)


def deploy_fields(row: Row) -> dict[str, Any]:
    fields = (
        "dag_name", "kind", "from_version", "to_version", "status", "error", "started_at",
        "ended_at",
    )  # fmt: skip
    return {"deploy_id": row["id"]} | {field: row[field] for field in fields}
