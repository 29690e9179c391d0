"""Datasets, their generations and the partitions that were committed to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries
from trace_platform.state.dags import Publish
from trace_platform.state.events import NewEvent
from trace_platform.wire.delivery import DELIVERY_COLUMNS
from trace_platform.wire.manifest import Manifest, ManifestColumn, schema_hash
from trace_platform.wire.merge_columns import incompatible, merge_columns
from trace_platform.wire.task import OutputCommit

_sql = load_queries(__file__)


async def ids_of_dag(tx: Tx, org_id: UUID, dag_name: str) -> dict[tuple[str, int], UUID]:
    """Every output that any version of the DAG ever had."""
    rows = await _sql.ids_of_dag(tx, org_id=org_id, dag_name=dag_name)
    return {(row["job_name"], row["output_index"]): row["uuid"] for row in rows}


async def outputs_of_job(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> list[Row]:
    rows: list[Row] = await _sql.outputs_of_job(
        tx, org_id=org_id, dag_name=dag_name, job_name=job_name
    )
    return rows


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


async def readers_by_name(tx: Tx, org_id: UUID, dag_name: str, names: Sequence[str]) -> list[Row]:
    """Jobs of other DAGs that read one of these names."""
    rows: list[Row] = await _sql.readers_by_name(
        tx, org_id=org_id, dag_name=dag_name, names=list(names)
    )
    return rows


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


async def names_taken(tx: Tx, org_id: UUID, dag_name: str, names: Sequence[str]) -> list[Row]:
    """Of these names, one that another DAG publishes or is about to, and which DAG."""
    rows: list[Row] = await _sql.names_taken(
        tx, org_id=org_id, dag_name=dag_name, names=list(names)
    )
    return rows


async def names_of_dag(tx: Tx, org_id: UUID, dag_name: str) -> dict[str, UUID]:
    """What the DAG publishes now."""
    rows = await _sql.names_of_dag(tx, org_id=org_id, dag_name=dag_name)
    return {row["name"]: row["uuid"] for row in rows}


async def find_published(tx: Tx, org_id: UUID, name: str) -> Row | None:
    row: Row | None = await _sql.find_published(tx, org_id=org_id, name=name)
    return row


async def find(tx: Tx, org_id: UUID, named: str) -> Row | None:
    """By published name, by uuid, or by who makes it: DAG.JOB or DAG.JOB.OUTPUT."""
    row: Row | None = await _sql.find(tx, org_id=org_id, named=named)
    return row


async def names(tx: Tx, org_id: UUID, limit: int) -> list[str]:
    return [row["name"] for row in await _sql.names(tx, org_id=org_id, limit=limit)]


async def lock_generations(tx: Tx, versions: Sequence[UUID]) -> tuple[dict[UUID, Row], datetime]:
    """By version: the columns that are known. And the one moment of all that is committed to them
    in this transaction: later than any that was."""
    rows = await _sql.lock_generations(tx, versions=list(versions))
    moment: datetime = await _sql.moment(tx)
    return {row["version"]: row for row in rows}, moment


async def declared(tx: Tx, versions: Sequence[UUID]) -> dict[UUID, list[Row]]:
    """By version: under which name, and with which `schema` and `storage`, DAGs publish it."""
    found: dict[UUID, list[Row]] = {}
    for row in await _sql.declared(tx, versions=list(versions)):
        found.setdefault(row["version"], []).append(row)
    return found


async def widen_columns(tx: Tx, known: Row, manifest: Manifest) -> list[ManifestColumn]:
    """The generation has the columns of all its commits, which are returned; where one does not say
    them, its hash has to be the one that is known. Raise IncompatibleSchema when it cannot have
    them."""
    columns = [ManifestColumn.model_validate(each) for each in known["columns"] or ()]
    if known["schema_hash"] == manifest.schema_hash and (columns or not manifest.columns):
        return columns
    blind = not manifest.columns or (known["schema_hash"] is not None and not columns)
    if blind and known["schema_hash"] not in (None, manifest.schema_hash):
        raise incompatible(
            f"partition {manifest.partition_key} has another schema than what is committed, "
            "and one of them does not say its columns"
        )
    merged = merge_columns(columns, manifest.columns) if manifest.columns else columns
    if merged != columns or known["schema_hash"] is None:
        await _sql.set_columns(
            tx,
            dataset_version=known["version"],
            columns=Jsonb([column.model_dump() for column in merged]) if merged else None,
            schema_hash=manifest.schema_hash,
        )
    return merged


async def say_delivery_columns(tx: Tx, generation_ids: Sequence[UUID]) -> None:
    """Of webhooks: what a delivery has is known before there is one."""
    await _sql.say_columns(
        tx,
        generation_ids=list(generation_ids),
        columns=Jsonb([column.model_dump() for column in DELIVERY_COLUMNS]),
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
) -> list[Row]:
    """The current partitions in order, with what their manifests promise."""
    rows: list[Row] = await _sql.partition_files(
        tx,
        dataset_version=dataset_version,
        after_start=after_start,
        after_key=after_key,
        limit=limit,
    )
    return rows


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


async def files_of_inputs(tx: Tx, inputs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """For each input of some tasks, the URIs of the committed files behind it: of a range all that
    lies within it now, of another partition its own."""
    files: list[list[str]] = [[] for _ in inputs]
    ranges = [(n, given) for n, given in enumerate(inputs) if "start" in given]
    keyed = [
        (n, given)
        for n, given in enumerate(inputs)
        if "partition_key" in given and "start" not in given
    ]
    rows: list[Row] = []
    if ranges:
        rows += await _sql.files_within(
            tx,
            ns=[n for n, _ in ranges],
            versions=[UUID(given["dataset_version"]) for _, given in ranges],
            starts=[given["start"] for _, given in ranges],
            ends=[given["end"] for _, given in ranges],
        )
    if keyed:
        rows += await _sql.files_of_keys(
            tx,
            ns=[n for n, _ in keyed],
            versions=[UUID(given["dataset_version"]) for _, given in keyed],
            keys=[given["partition_key"] for _, given in keyed],
        )
    for row in rows:
        files[row["n"]] += [row["location"] + file["name"] for file in row["files"]]
    return files


async def lost_events(tx: Tx, limit: int) -> list[NewEvent]:
    """Events that should be on record for current partitions and are not."""
    return [NewEvent(**row) for row in await _sql.lost_events(tx, limit=limit)]


async def published(tx: Tx, org_id: UUID, dag_name: str | None = None) -> list[Row]:
    rows: list[Row] = await _sql.published(tx, org_id=org_id, dag_name=dag_name)
    return rows
