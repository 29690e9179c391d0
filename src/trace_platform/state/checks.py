"""What checks found, and which committed partitions they keep from which jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Json

from trace_platform.domain.errors import HeldByCheck
from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state.task_rows import HeldTask
from trace_platform.wire.check import Outcome, SampleRow

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
    sample: list[SampleRow]
    materialisation: str | None


@dataclass(frozen=True, slots=True, order=True)
class Reader:
    """A job that a check names."""

    org_id: UUID
    dag_name: str
    job_name: str


@dataclass(frozen=True, slots=True)
class Withheld:
    """A committed partition that a job may not read, and the checks that failed."""

    org_id: UUID
    dag_name: str
    job_name: str
    checks: list[str]
    location: str
    partition_key: str
    dataset: str

    @property
    def reader(self) -> Reader:
        return Reader(self.org_id, self.dag_name, self.job_name)


@dataclass(frozen=True, slots=True)
class WithheldPart(Withheld):
    id: UUID


@dataclass(frozen=True, slots=True)
class StandingCheck:
    """A partition that is read now and kept from a job, for how long."""

    dag_name: str
    job_name: str
    checks: list[str]
    partition_key: str
    dataset: str
    age_s: float


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result as it is on record."""

    dataset: str
    dataset_uuid: UUID
    task_id: UUID
    attempt: int
    partition_key: str
    name: str
    kind: str
    outcome: Outcome
    blocks_all: bool
    readers: list[str]
    row_count: int
    failing: int
    message: str
    sample: list[SampleRow]
    materialisation: UUID | None
    checked_at: datetime
    blocks_now: bool


@dataclass(frozen=True, slots=True)
class ListedCheck:
    """A check by its newest result, and how many of all came out how."""

    dataset: str
    name: str
    kind: str
    outcome: Outcome
    blocks_all: bool
    readers: list[str]
    partition_key: str
    checked_at: datetime
    passed: int
    failed: int


@dataclass(frozen=True, slots=True)
class _Personal:
    uuid: UUID
    columns: list[str]


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
    rows = await _sql.rows(
        tx,
        "withheld_from",
        Withheld,
        org_ids=[reader.org_id for reader in each],
        dag_names=[reader.dag_name for reader in each],
        job_names=[reader.job_name for reader in each],
    )
    found: dict[Reader, list[Withheld]] = {}
    for row in rows:
        found.setdefault(row.reader, []).append(row)
    return found


async def withheld_of(tx: Tx, ids: Sequence[UUID]) -> dict[UUID, Withheld]:
    """Of these partitions those that are kept from somebody."""
    if not ids:
        return {}
    rows = await _sql.rows(tx, "withheld_of", WithheldPart, ids=list(ids))
    return {row.id: row for row in rows}


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


async def standing(tx: Tx, org_id: UUID) -> list[StandingCheck]:
    return await _sql.rows(tx, "standing", StandingCheck, org_id=org_id)


async def personal_columns(tx: Tx, dataset_uuids: Iterable[UUID]) -> Mapping[UUID, frozenset[str]]:
    """By dataset, in lower case: all that was ever said to be personal."""
    rows = await _sql.rows(tx, "pii", _Personal, uuids=list(set(dataset_uuids)))
    return {row.uuid: frozenset(name.lower() for name in row.columns) for row in rows}


async def results(
    tx: Tx, org_id: UUID, dataset_uuid: UUID, limit: int, *, failed: bool
) -> list[StoredResult]:
    return await _sql.rows(
        tx,
        "results",
        StoredResult,
        org_id=org_id,
        dataset_uuid=dataset_uuid,
        failed=failed,
        limit=limit,
    )


async def listing(tx: Tx, org_id: UUID, dataset_uuid: UUID | None) -> list[ListedCheck]:
    return await _sql.rows(tx, "listing", ListedCheck, org_id=org_id, dataset_uuid=dataset_uuid)
