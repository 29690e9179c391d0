"""What a plan says besides the difference: how much there is, who reads it, who works."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


async def sizes(tx: Tx, dag_version_id: UUID | None) -> list[Row]:
    """By job of a version: what its outputs hold, and how long that took to make."""
    rows: list[Row] = await _sql.sizes(tx, dag_version_id=dag_version_id)
    return rows


async def readers(tx: Tx, org_id: UUID, dag_name: str, job_names: Sequence[str]) -> list[Row]:
    """Jobs of other DAGs that read what these jobs write."""
    rows: list[Row] = await _sql.readers(
        tx, org_id=org_id, dag_name=dag_name, job_names=list(job_names)
    )
    return rows


async def published(tx: Tx, dag_version_id: UUID | None) -> list[Row]:
    rows: list[Row] = await _sql.published(tx, dag_version_id=dag_version_id)
    return rows


async def slots(tx: Tx) -> int:
    """How many tasks can run at once."""
    found: int = await _sql.slots(tx)
    return found
