"""What checks found, and which committed partitions they keep from which jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Json

from trace_platform.domain.errors import HeldByCheck
from trace_platform.drivers.postgres.queries import Row, Tx, load_queries
from trace_platform.state.task_rows import HeldTask

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class Kept:
    """One result, as it is stored."""

    dataset_uuid: str
    dataset_version: str
    partition_key: str
    name: str
    kind: str
    outcome: str
    blocks_all: bool
    readers: list[str]
    row_count: int
    failing: int
    message: str
    sample: list[dict[str, str | None]]
    materialisation: str | None


@dataclass(frozen=True, slots=True, order=True)
class Reader:
    """A job that a check names."""

    org_id: UUID
    dag_name: str
    job_name: str


@dataclass(frozen=True, slots=True)
class Withheld:
    """A committed partition that a job may not read."""

    location: str
    partition_key: str
    dataset: str
    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PutBack:
    """An attempt that may not have what it was to read, and why."""

    task_id: UUID
    attempt: int
    lease_token: UUID
    message: str


async def record(tx: Tx, task: HeldTask, results: Sequence[Kept]) -> None:
    await _sql.record(
        tx,
        task_id=task.id,
        attempt=task.attempt,
        results=Json([asdict(each) for each in results]),
    )


async def withhold(tx: Tx, materialisation: UUID, name: str, readers: Iterable[Reader]) -> None:
    """Because the check of this name failed."""
    each = sorted(readers)
    await _sql.withhold(
        tx,
        name=name,
        materialisations=[materialisation] * len(each),
        org_ids=[reader.org_id for reader in each],
        dag_names=[reader.dag_name for reader in each],
        job_names=[reader.job_name for reader in each],
    )


async def withheld_from(tx: Tx, readers: Iterable[Reader]) -> dict[Reader, list[Withheld]]:
    each = sorted(set(readers))
    rows = await _sql.withheld_from(
        tx,
        org_ids=[reader.org_id for reader in each],
        dag_names=[reader.dag_name for reader in each],
        job_names=[reader.job_name for reader in each],
    )
    found: dict[Reader, list[Withheld]] = {}
    for row in rows:
        reader = Reader(row["org_id"], row["dag_name"], row["job_name"])
        withheld = Withheld(
            row["location"], row["partition_key"], _dataset(row), tuple(row["checks"])
        )
        found.setdefault(reader, []).append(withheld)
    return found


async def put_back(tx: Tx, attempts: Sequence[PutBack]) -> None:
    await _sql.put_back(
        tx,
        task_ids=[each.task_id for each in attempts],
        attempts=[each.attempt for each in attempts],
        lease_tokens=[each.lease_token for each in attempts],
        error_codes=[HeldByCheck.code] * len(attempts),
        error_messages=[each.message for each in attempts],
    )


async def release(tx: Tx, dataset_versions: Sequence[UUID]) -> None:
    """Of generations that something was committed to in this transaction."""
    await _sql.release(tx, dataset_versions=list(dataset_versions), error_code=HeldByCheck.code)


async def standing(tx: Tx, org_id: UUID) -> list[Row]:
    rows: list[Row] = await _sql.standing(tx, org_id=org_id)
    return rows


async def personal_columns(tx: Tx, dataset_uuids: Iterable[UUID]) -> Mapping[UUID, frozenset[str]]:
    """By dataset, in lower case: all that was ever said to be personal."""
    rows = await _sql.pii(tx, uuids=list(set(dataset_uuids)))
    return {row["uuid"]: frozenset(name.lower() for name in row["columns"]) for row in rows}


async def results(
    tx: Tx, org_id: UUID, dataset_uuid: UUID, limit: int, *, failed: bool
) -> list[Row]:
    rows: list[Row] = await _sql.results(
        tx, org_id=org_id, dataset_uuid=dataset_uuid, failed=failed, limit=limit
    )
    return rows


async def listing(tx: Tx, org_id: UUID, dataset_uuid: UUID | None) -> list[Row]:
    rows: list[Row] = await _sql.listing(tx, org_id=org_id, dataset_uuid=dataset_uuid)
    return rows


def _dataset(row: dict[str, Any]) -> str:
    own = f"{row['made_by_dag']}.{row['made_by_job']}.{row['output_index']}"
    return row["dataset"] or own
