"""What a plan says besides the difference: how much there is, who reads it, who works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state.generations import OtherReader

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class JobSize:
    """What the outputs of a job hold, as `wire.plan.Amount` has it."""

    job_name: str
    amount: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PublishedOutput:
    """A name that a version publishes, and whose output it is."""

    name: str
    metadata: dict[str, Any]
    job_name: str
    output_index: int


async def sizes(tx: Tx, dag_version_id: UUID | None) -> list[JobSize]:
    """By job of a version: what its outputs hold, and how long that took to make."""
    return await _sql.rows(tx, "sizes", JobSize, dag_version_id=dag_version_id)


async def readers(
    tx: Tx, org_id: UUID, dag_name: str, job_names: Sequence[str]
) -> list[OtherReader]:
    """Jobs of other DAGs that read what these jobs write."""
    return await _sql.rows(
        tx, "readers", OtherReader, org_id=org_id, dag_name=dag_name, job_names=list(job_names)
    )


async def published(tx: Tx, dag_version_id: UUID | None) -> list[PublishedOutput]:
    return await _sql.rows(tx, "published", PublishedOutput, dag_version_id=dag_version_id)


async def slots(tx: Tx) -> int:
    """How many tasks can run at once."""
    found: int = await _sql.slots(tx)
    return found
