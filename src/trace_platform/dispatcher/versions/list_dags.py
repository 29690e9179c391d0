"""The DAGs of an instance, and how each stands."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.versions.show_deploy import deploy_status
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import dags, deploys, overview
from trace_platform.state.dags import DagOverview
from trace_platform.state.deploys import Deploy
from trace_platform.wire.plan import DagList, DagState, DagSummary


async def list_dags(state: Database, org_id: UUID) -> DagList:
    """Every DAG that was ever deployed, also what was removed or never built."""
    async with overview.snapshot(state) as tx:
        rows = await dags.overview(tx, org_id)
        newest = await deploys.newest_of_each(tx, org_id)
    return DagList(dags=[_summary(row, newest.get(row.dag_name)) for row in rows])


def _summary(row: DagOverview, newest: Deploy | None) -> DagSummary:
    return DagSummary(
        dag_name=row.dag_name,
        dag_version=row.dag_version,
        jobs=row.jobs,
        sources=row.sources,
        job_names=row.job_names,
        datasets=row.datasets,
        paused=row.paused,
        activated_at=row.activated_at,
        state=_state(row, newest),
        last_deploy=deploy_status(newest) if newest else None,
    )


def _state(row: DagOverview, newest: Deploy | None) -> DagState:
    if newest is not None and newest.status == "Building":
        return "Building"
    if row.active:
        return "Active"
    return "Removed" if newest is not None and newest.kind == "removal" else "NotBuilt"
