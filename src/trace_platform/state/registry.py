"""The registry of datasets: what there is, what made it, what reads it, and what was purged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state import operator_state, query_datasets
from trace_platform.state.dags import Publish

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class DeclaredOrigin:
    """What a DAG file says of a column: of which dataset or job it comes, and of which column."""

    dataset_uuid: UUID
    column_name: str
    input_dataset: str
    input_column: str


@dataclass(frozen=True, slots=True)
class DeployedJob:
    dag_name: str
    job_name: str
    generation_id: UUID
    activation: str
    priority: int


@dataclass(frozen=True, slots=True)
class ReadEdge:
    """A job reads a dataset."""

    dag_name: str
    job_name: str
    input_index: int
    dataset_uuid: UUID


@dataclass(frozen=True, slots=True)
class DatasetNow:
    """A dataset with its current generation and its newest event."""

    dataset_uuid: UUID
    name: str | None
    dag_name: str
    job_name: str
    output_index: int
    metadata: dict[str, Any]
    dataset_version: UUID
    generation_id: UUID
    table_name: str | None
    cursor: int | None
    newest_at: datetime | None
    age_s: float | None
    unchanged_s: float


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a generation of a dataset holds; a table with the files of what has left it."""

    dataset_version: UUID
    files_version: UUID
    partitions: int
    bytes: int
    file_rows: int
    table_start: int | None
    cursor: int | None
    rows: int
    rows_estimated: bool
    first_block: int | None
    last_block: int | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Blocks that are missing; `found` is how many gaps there are."""

    start: int
    end: int
    found: int


@dataclass(frozen=True, slots=True)
class DatasetAge:
    name: str
    max_age_s: float
    age_s: float


@dataclass(frozen=True, slots=True)
class DatasetGeneration:
    dataset_version: UUID
    generation_id: UUID
    created_at: datetime
    built_at: datetime | None
    purged_at: datetime | None
    cleaned_at: datetime | None
    current: bool
    building: bool
    dag_versions: list[UUID]
    active: bool


@dataclass(frozen=True, slots=True)
class CurrentPartition:
    partition_key: str
    start: int | None
    end: int | None
    rows: int
    bytes: int
    files: int
    committed_at: datetime
    # None: a webhook's delivery.
    task_id: UUID | None
    attempt: int | None


@dataclass(frozen=True, slots=True)
class PartitionArrays:
    """Current partitions in order, one list for each of their fields."""

    start: list[int | None]
    end: list[int | None]
    # None for a range.
    key: list[str | None]
    rows: list[int]
    bytes: list[int]
    files: list[int]
    committed_ms: list[int]
    task_id: list[UUID | None]
    attempt: list[int | None]


@dataclass(frozen=True, slots=True)
class BuildingDeploy:
    dag_name: str
    deploy_id: UUID
    to_version: UUID | None
    building: list[UUID]
    started_at: datetime
    age_s: float


@dataclass(frozen=True, slots=True)
class GenerationOutput:
    generation_id: UUID
    dataset_version: UUID
    dataset_uuid: UUID
    table_name: str | None
    org_id: UUID
    dataset: str


@dataclass(frozen=True, slots=True)
class GenerationFiles:
    generation_id: UUID
    rows: int
    bytes: int
    files: int
    partitions: int


@dataclass(frozen=True, slots=True)
class GenerationUse:
    """Why a generation cannot go: `code`, and of what."""

    generation_id: UUID
    code: str
    said: str


async def jobs(tx: Tx, org_id: UUID) -> list[DeployedJob]:
    """Every deployed job with the generation that it writes."""
    return await _sql.rows(tx, "jobs", DeployedJob, org_id=org_id)


async def edges(tx: Tx, org_id: UUID) -> list[ReadEdge]:
    """Which dataset each deployed job reads."""
    return await _sql.rows(tx, "edges", ReadEdge, org_id=org_id)


async def datasets(tx: Tx, org_id: UUID) -> list[DatasetNow]:
    """Every dataset, published ones first, with its current generation and newest event."""
    return await _sql.rows(tx, "datasets", DatasetNow, org_id=org_id)


async def amounts(tx: Tx, dataset_versions: Sequence[UUID]) -> dict[UUID, Amounts]:
    """What these generations of datasets hold."""
    cold = await query_datasets.cold_parts(tx, dataset_versions)
    files = {v: cold[v].cold_version if v in cold else v for v in dataset_versions}
    rows = await _sql.rows(
        tx,
        "amounts",
        Amounts,
        dataset_versions=list(files),
        files_versions=list(files.values()),
    )
    return {row.dataset_version: row for row in rows}


async def gaps(tx: Tx, held: Amounts, limit: int) -> list[Gap]:
    """Ranges that are missing between the first and the last block."""
    return await _sql.rows(
        tx,
        "gaps",
        Gap,
        files_version=held.files_version,
        table_start=held.table_start,
        table_end=held.cursor,
        limit=limit,
    )


async def ages(tx: Tx, org_id: UUID) -> list[DatasetAge]:
    """Of the published datasets that say how old they may be."""
    return await _sql.rows(tx, "ages", DatasetAge, org_id=org_id)


async def versions(tx: Tx, dataset_uuid: UUID) -> list[DatasetGeneration]:
    """The generations of a dataset, the newest first."""
    return await _sql.rows(tx, "versions", DatasetGeneration, dataset_uuid=dataset_uuid)


async def partition_columns(
    tx: Tx, dataset_version: UUID, after_start: int | None, after_key: str | None, limit: int
) -> PartitionArrays:
    """After the one that was the last so far."""
    return await _sql.one(
        tx,
        "partition_columns",
        PartitionArrays,
        dataset_version=dataset_version,
        after_start=after_start,
        after_key=after_key,
        limit=limit,
    )


async def partitions(
    tx: Tx,
    dataset_version: UUID,
    first: int | None,
    last: int | None,
    after_start: int | None,
    after_key: str | None,
    limit: int,
) -> list[CurrentPartition]:
    """Those that lie in or reach into the range, after the one that was the last so far."""
    return await _sql.rows(
        tx,
        "partitions",
        CurrentPartition,
        dataset_version=dataset_version,
        first=first,
        last=last,
        after_start=after_start,
        after_key=after_key,
        limit=limit,
    )


async def building(tx: Tx, org_id: UUID) -> dict[str, BuildingDeploy]:
    """By DAG, the deploy that is being built."""
    rows = await _sql.rows(tx, "building", BuildingDeploy, org_id=org_id)
    return {row.dag_name: row for row in rows}


async def set_column_lineage(
    tx: Tx, org_id: UUID, dag_name: str, published: Sequence[Publish]
) -> None:
    """What the DAG says of where its columns come from, and nothing else."""
    await _sql.forget_column_lineage(tx, org_id=org_id, dag_name=dag_name)
    found = [line for each in published for line in _origins(each)]
    if found:
        uuids, columns, inputs, input_columns = map(list, zip(*found, strict=True))
        await _sql.add_column_lineage(
            tx,
            dataset_uuids=uuids,
            columns=columns,
            input_datasets=inputs,
            input_columns=input_columns,
        )


def _origins(published: Publish) -> Iterator[tuple[UUID, str, str, str]]:
    for name, column in (published.metadata.get("schema") or {}).items():
        for origin in column.get("from", ()):
            dataset, _, input_column = origin.partition(".")
            yield published.dataset_uuid, name, dataset, input_column


async def column_lineage(tx: Tx, org_id: UUID) -> list[DeclaredOrigin]:
    return await _sql.rows(tx, "column_lineage", DeclaredOrigin, org_id=org_id)


async def outputs_of_generations(tx: Tx, generation_ids: Sequence[UUID]) -> list[GenerationOutput]:
    """Every dataset that these generations are of."""
    return await _sql.rows(
        tx, "outputs_of_generations", GenerationOutput, generation_ids=list(generation_ids)
    )


async def files_of_generations(
    tx: Tx, generation_ids: Sequence[UUID]
) -> dict[UUID, GenerationFiles]:
    """How much each has in the object store, also of what gave way."""
    rows = await _sql.rows(
        tx, "files_of_generations", GenerationFiles, generation_ids=list(generation_ids)
    )
    return {row.generation_id: row for row in rows}


async def uses(tx: Tx, generation_ids: Sequence[UUID]) -> list[GenerationUse]:
    """Why these cannot go: `current`, `active`, `building`, `read` or `task`, and of what."""
    return await _sql.rows(tx, "uses", GenerationUse, generation_ids=list(generation_ids))


async def disown_tasks(tx: Tx, generation_ids: Sequence[UUID]) -> None:
    """Whatever ended badly of these commits nothing, should it be tried again."""
    await _sql.disown_tasks(tx, generation_ids=list(generation_ids))


async def purge(tx: Tx, generation_ids: Sequence[UUID]) -> None:
    """Nothing in this database points at their files any more. The caller saw that nothing uses
    them, and holds the lock of deploys."""
    ids = list(generation_ids)
    await _sql.mark_purged(tx, generation_ids=ids)
    await _sql.delete_partitions(tx, generation_ids=ids)
    await _sql.delete_loose_events(tx, generation_ids=ids)
    await _sql.close_invalidations(tx, generation_ids=ids)
    await operator_state.forget_all(tx, ids)


async def unclean(tx: Tx, limit: int) -> list[UUID]:
    """Generations that were purged and whose files may not all be gone."""
    return [row["generation_id"] for row in await _sql.unclean(tx, limit=limit)]


async def mark_clean(tx: Tx, generation_id: UUID) -> bool:
    """False when it was so already."""
    return bool(await _sql.mark_clean(tx, generation_id=generation_id))
