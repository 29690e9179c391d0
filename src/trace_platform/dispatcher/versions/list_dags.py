"""The DAGs of an instance, and how each stands."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.versions.show_deploy import deploy_fields
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row
from trace_platform.state import dags, deploys, overview
from trace_platform.wire.plan import DagList, DagState, DagSummary, DeployStatus


async def list_dags(state: Database, org_id: UUID) -> DagList:
    """Every DAG that was ever deployed, also what was removed or never built."""
    async with overview.snapshot(state) as tx:
        rows = await dags.overview(tx, org_id)
        newest = await deploys.newest_of_each(tx, org_id)
    return DagList(dags=[_summary(row, newest.get(row["dag_name"])) for row in rows])


def _summary(row: Row, newest: Row | None) -> DagSummary:
    same = (
        "dag_name", "dag_version", "jobs", "sources", "job_names", "datasets", "paused",
        "activated_at",
    )  # fmt: skip
    return DagSummary(
        **{field: row[field] for field in same},
        state=_state(row, newest),
        last_deploy=DeployStatus(**deploy_fields(newest)) if newest else None,
    )


def _state(row: Row, newest: Row | None) -> DagState:
    if newest is not None and newest["status"] == "Building":
        return "Building"
    if row["active"]:
        return "Active"
    return "Removed" if newest is not None and newest["kind"] == "removal" else "NotBuilt"
