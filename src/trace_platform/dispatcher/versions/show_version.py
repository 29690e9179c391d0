"""The versions that a DAG had, and the file of each."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from trace_platform.dispatcher.versions.refuse_unknown_dag import refuse_unknown_dag
from trace_platform.domain.errors import BadInput, NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import dags
from trace_platform.state.dags import ListedVersion
from trace_platform.wire.plan import DagVersion, DagVersionDetail, DagVersionList

MOST = 1_000


async def list_versions(state: Database, org_id: UUID, dag_name: str, limit: int) -> DagVersionList:
    async with state.transaction() as tx:
        rows = await _versions(tx, org_id, dag_name, limit)
    return DagVersionList(versions=[DagVersion(**asdict(row)) for row in rows])


async def show_version(
    state: Database, org_id: UUID, dag_name: str, named: str
) -> DagVersionDetail:
    """By id, by the beginning of one, or the one that is `active`."""
    async with state.transaction() as tx:
        rows = await _versions(tx, org_id, dag_name, MOST)
        found = [row for row in rows if _is(row, named)]
        if not found:
            raise NotFound(
                f"DAG '{dag_name}' has no version {named}", hint=f"trace dag versions {dag_name}"
            )
        if len(found) > 1:
            raise BadInput(
                f"{len(found)} versions of DAG '{dag_name}' begin with {named}",
                hint="give more of the id",
            )
        stored = await dags.get_version(tx, org_id, found[0].dag_version)
        assert stored is not None, "versions are never deleted"
    return DagVersionDetail(**asdict(found[0]), yaml=stored.yaml)


async def _versions(tx: Tx, org_id: UUID, dag_name: str, limit: int) -> list[ListedVersion]:
    rows = await dags.versions(tx, org_id, dag_name, limit)
    if not rows:
        await refuse_unknown_dag(tx, org_id, dag_name)
    return rows


def _is(row: ListedVersion, named: str) -> bool:
    return bool(row.active) if named == "active" else str(row.dag_version).startswith(named)
