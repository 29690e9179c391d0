"""Datasets, their generations and the partitions that were committed to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.domain.freshness import Given
from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state.dags import Publish
from trace_platform.state.events import NewEvent
from trace_platform.wire.delivery import DELIVERY_COLUMNS
from trace_platform.wire.manifest import Manifest, ManifestColumn, schema_hash
from trace_platform.wire.merge_columns import incompatible, merge_columns
from trace_platform.wire.task import OutputCommit

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class Dataset:
    uuid: UUID
    dag_name: str
    job_name: str
    output_index: int
    # None: it is not published.
    name: str | None
    current_version: UUID


@dataclass(frozen=True, slots=True)
class OutputVersion:
    """An output of a job, and its version that is read."""

    output_index: int
    dataset_uuid: UUID
    dataset_version: UUID


@dataclass(frozen=True, slots=True)
class NameReader:
    """A job that reads a dataset by its name."""

    dataset_name: str
    dag_name: str
    job_name: str


@dataclass(frozen=True, slots=True)
class TakenName:
    """A name, and the DAG that publishes it or is about to."""

    name: str
    dag_name: str


@dataclass(frozen=True, slots=True)
class PublishedDataset:
    """The dataset behind a name, and the job that makes it."""

    uuid: UUID
    dag_name: str
    job_name: str


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """The columns of a version, as far as its commits said them."""

    version: UUID
    columns: list[dict[str, Any]] | None
    schema_hash: str | None


@dataclass(frozen=True, slots=True)
class DeclaredDataset:
    """What a version of the DAG declares of a dataset that it publishes."""

    version: UUID
    name: str
    schema: dict[str, Any] | None
    storage: str | None


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Files of the input, or of the place, with this number."""

    n: int
    location: str
    files: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class CommittedFiles:
    """A partition with what its manifest promises."""

    partition_key: str
    start: int | None
    end: int | None
    location: str
    files: list[dict[str, Any]]
    rows: int
    bytes: int
    schema_hash: str
    task_id: UUID | None


@dataclass(frozen=True, slots=True)
class PublishedAmount:
    """A dataset that is published, and how much of it is committed."""

    name: str
    dataset_uuid: UUID
    dataset_version: UUID
    dag_name: str
    job_name: str
    partitions: int
    row_count: int
    byte_count: int
    first_block: int | None
    last_block: int | None


async def ids_of_dag(tx: Tx, org_id: UUID, dag_name: str) -> dict[tuple[str, int], UUID]:
    """Every output that any version of the DAG ever had."""
    rows = await _sql.ids_of_dag(tx, org_id=org_id, dag_name=dag_name)
    return {(row["job_name"], row["output_index"]): row["uuid"] for row in rows}


async def outputs_of_job(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> list[OutputVersion]:
    return await _sql.rows(
        tx, "outputs_of_job", OutputVersion, org_id=org_id, dag_name=dag_name, job_name=job_name
    )


async def publish_as(tx: Tx, org_id: UUID, dag_name: str, published: Sequence[Publish]) -> None:
    """These names, and no others, are what the DAG publishes."""
    await _sql.unpublish(
        tx,
        org_id=org_id,
        dag_name=dag_name,
        names=[each.name for each in published],
        uuids=[each.dataset_uuid for each in published],
    )
    for each in published:
        await _sql.publish(
            tx, name=each.name, dataset_uuid=each.dataset_uuid, metadata=each.metadata
        )


async def point_at(tx: Tx, generation_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Readers see these generations from now on. The datasets that changed, and their versions."""
    rows = await _sql.point_at(tx, generation_ids=list(generation_ids))
    return {row["uuid"]: row["version"] for row in rows}


async def current_versions(tx: Tx, dataset_uuids: Sequence[UUID]) -> dict[UUID, UUID]:
    rows = await _sql.current_versions(tx, uuids=list(dataset_uuids))
    return {row["uuid"]: row["current_version"] for row in rows}


async def readers_by_name(
    tx: Tx, org_id: UUID, dag_name: str, names: Sequence[str]
) -> list[NameReader]:
    """Jobs of other DAGs that read one of these names."""
    return await _sql.rows(
        tx, "readers_by_name", NameReader, org_id=org_id, dag_name=dag_name, names=list(names)
    )


async def ensure_shared(tx: Tx, org_id: UUID, dag_name: str, name: str) -> UUID:
    """The dataset of this name that several jobs write."""
    dataset_uuid: UUID = await _sql.ensure_shared(tx, org_id=org_id, dag_name=dag_name, name=name)
    return dataset_uuid


async def share(tx: Tx, org_id: UUID, dag_name: str, dag_version_id: UUID) -> None:
    """From now on the producers that this version names write to their shared datasets."""
    await _sql.unshare(tx, org_id=org_id, dag_name=dag_name)
    await _sql.share(tx, org_id=org_id, dag_name=dag_name, dag_version_id=dag_version_id)


async def unpublish_all(tx: Tx, org_id: UUID, dag_name: str) -> None:
    """The DAG's datasets lose their names, and its jobs write into none that several share."""
    await publish_as(tx, org_id, dag_name, [])
    await _sql.unshare(tx, org_id=org_id, dag_name=dag_name)


async def names_taken(tx: Tx, org_id: UUID, dag_name: str, names: Sequence[str]) -> list[TakenName]:
    """Of these names, one that another DAG publishes or is about to, and which DAG."""
    return await _sql.rows(
        tx, "names_taken", TakenName, org_id=org_id, dag_name=dag_name, names=list(names)
    )


async def names_of_dag(tx: Tx, org_id: UUID, dag_name: str) -> dict[str, UUID]:
    """What the DAG publishes now."""
    rows = await _sql.names_of_dag(tx, org_id=org_id, dag_name=dag_name)
    return {row["name"]: row["uuid"] for row in rows}


async def find_published(tx: Tx, org_id: UUID, name: str) -> PublishedDataset | None:
    return await _sql.row(tx, "find_published", PublishedDataset, org_id=org_id, name=name)


async def find(tx: Tx, org_id: UUID, named: str) -> Dataset | None:
    """By published name, by uuid, or by who makes it: DAG.JOB or DAG.JOB.OUTPUT."""
    return await _sql.row(tx, "find", Dataset, org_id=org_id, named=named)


async def names(tx: Tx, org_id: UUID, limit: int) -> list[str]:
    return [row["name"] for row in await _sql.names(tx, org_id=org_id, limit=limit)]


async def lock_generations(
    tx: Tx, versions: Sequence[UUID]
) -> tuple[dict[UUID, KnownColumns], datetime]:
    """By version: the columns that are known. And the one moment of all that is committed to them
    in this transaction: later than any that was."""
    locked = await _sql.rows(tx, "lock_generations", KnownColumns, versions=list(versions))
    moment: datetime = await _sql.moment(tx)
    return {each.version: each for each in locked}, moment


async def declared(tx: Tx, versions: Sequence[UUID]) -> dict[UUID, list[DeclaredDataset]]:
    """By version: under which name, and with which `schema` and `storage`, DAGs publish it."""
    found: dict[UUID, list[DeclaredDataset]] = {}
    for each in await _sql.rows(tx, "declared", DeclaredDataset, versions=list(versions)):
        found.setdefault(each.version, []).append(each)
    return found


async def widen_columns(tx: Tx, known: KnownColumns, manifest: Manifest) -> list[ManifestColumn]:
    """The generation has the columns of all its commits, which are returned; where one does not say
    them, its hash has to be the one that is known. Raise IncompatibleSchema when it cannot have
    them."""
    columns = [ManifestColumn.model_validate(each) for each in known.columns or ()]
    if known.schema_hash == manifest.schema_hash and (columns or not manifest.columns):
        return columns
    blind = not manifest.columns or (known.schema_hash is not None and not columns)
    if blind and known.schema_hash not in (None, manifest.schema_hash):
        raise incompatible(
            f"partition {manifest.partition_key} has another schema than what is committed, "
            "and one of them does not say its columns"
        )
    merged = merge_columns(columns, manifest.columns) if manifest.columns else columns
    said = [column.model_dump(exclude_none=True) for column in merged or ()]
    if merged != columns or known.schema_hash is None:
        await _sql.set_columns(
            tx,
            dataset_version=known.version,
            columns=Jsonb(said) if said else None,
            schema_hash=manifest.schema_hash,
        )
    return merged


async def say_delivery_columns(tx: Tx, generation_ids: Sequence[UUID]) -> None:
    """Of webhooks: what a delivery has is known before there is one."""
    await _sql.say_columns(
        tx,
        generation_ids=list(generation_ids),
        columns=Jsonb([column.model_dump(exclude_none=True) for column in DELIVERY_COLUMNS]),
        schema_hash=schema_hash(DELIVERY_COLUMNS),
    )


async def advance_cursor(tx: Tx, output: OutputCommit) -> None:
    """The generation is a table that now holds everything up to this cursor."""
    await _sql.advance_cursor(
        tx,
        dataset_uuid=output.dataset_uuid,
        dataset_version=output.dataset_version,
        location=output.location,
        cursor=output.cursor,
        start=output.start,
        row_count=output.row_count,
        rows_estimated=output.rows_estimated,
        columns=Jsonb([each.model_dump() for each in output.columns]) if output.columns else None,
    )


async def partition_files(
    tx: Tx, dataset_version: UUID, after_start: int | None, after_key: str | None, limit: int
) -> list[CommittedFiles]:
    """The current partitions in order, with what their manifests promise."""
    return await _sql.rows(
        tx,
        "partition_files",
        CommittedFiles,
        dataset_version=dataset_version,
        after_start=after_start,
        after_key=after_key,
        limit=limit,
    )


async def count_partitions(tx: Tx, dataset_version: UUID) -> int:
    count: int = await _sql.count_partitions(tx, dataset_version=dataset_version)
    return count


async def is_held_at(tx: Tx, location: str) -> bool:
    """Whether a current partition lies there."""
    return bool(await _sql.is_held_at(tx, location=location))


async def commit_delivery(
    tx: Tx,
    dataset_uuid: UUID,
    dataset_version: UUID,
    partition_key: str,
    location: str,
    file: dict[str, Any],
) -> UUID | None:
    """One row that came from outside, in one file. None when its key is there already."""
    partition_id: UUID | None = await _sql.insert_delivery(
        tx,
        dataset_uuid=dataset_uuid,
        dataset_version=dataset_version,
        partition_key=partition_key,
        location=location,
        files=Jsonb([file]),
        byte_count=file["bytes"],
        schema_hash=schema_hash(DELIVERY_COLUMNS),
    )
    return partition_id


async def files_of_inputs(tx: Tx, inputs: Sequence[Given]) -> list[list[str]]:
    """For each input of some tasks, the URIs of the committed files behind it: of a range all that
    lies within it now, of another partition its own."""
    files: list[list[str]] = [[] for _ in inputs]
    ranges = [(n, given) for n, given in enumerate(inputs) if "start" in given]
    keyed = [
        (n, given)
        for n, given in enumerate(inputs)
        if "partition_key" in given and "start" not in given
    ]
    rows: list[InputFiles] = []
    if ranges:
        rows += await _sql.rows(
            tx,
            "files_within",
            InputFiles,
            ns=[n for n, _ in ranges],
            versions=[UUID(given["dataset_version"]) for _, given in ranges],
            starts=[given["start"] for _, given in ranges],
            ends=[given["end"] for _, given in ranges],
        )
    if keyed:
        rows += await _sql.rows(
            tx,
            "files_of_keys",
            InputFiles,
            ns=[n for n, _ in keyed],
            versions=[UUID(given["dataset_version"]) for _, given in keyed],
            keys=[given["partition_key"] for _, given in keyed],
        )
    for row in rows:
        files[row.n] += [row.location + file["name"] for file in row.files]
    return files


async def lost_events(tx: Tx, limit: int) -> list[NewEvent]:
    """Events that should be on record for current partitions and are not."""
    return [NewEvent(**row) for row in await _sql.lost_events(tx, limit=limit)]


async def published(tx: Tx, org_id: UUID, dag_name: str | None = None) -> list[PublishedAmount]:
    return await _sql.rows(tx, "published", PublishedAmount, org_id=org_id, dag_name=dag_name)
