"""The registry of datasets: what there is, what made it, what reads it, and what was purged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries
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


async def jobs(tx: Tx, org_id: UUID) -> list[Row]:
    """Every deployed job with the generation that it writes."""
    rows: list[Row] = await _sql.jobs(tx, org_id=org_id)
    return rows


async def edges(tx: Tx, org_id: UUID) -> list[Row]:
    """Which dataset each deployed job reads."""
    rows: list[Row] = await _sql.edges(tx, org_id=org_id)
    return rows


async def datasets(tx: Tx, org_id: UUID) -> list[Row]:
    """Every dataset, published ones first, with its current generation and newest event."""
    rows: list[Row] = await _sql.datasets(tx, org_id=org_id)
    return rows


async def amounts(tx: Tx, dataset_versions: Sequence[UUID]) -> dict[UUID, Row]:
    """What these generations of datasets hold; `cold` of a table that has one: where that lies."""
    cold = await query_datasets.cold_parts(tx, dataset_versions)
    files = {v: cold[v]["cold_version"] if v in cold else v for v in dataset_versions}
    rows = await _sql.amounts(tx, dataset_versions=list(files), files_versions=list(files.values()))
    return {
        row["dataset_version"]: row
        | {"files_version": files[row["dataset_version"]], "cold": cold.get(row["dataset_version"])}
        for row in rows
    }


async def gaps(tx: Tx, held: Row, limit: int) -> list[Row]:
    """Of a row of `amounts`: ranges that are missing between the first and the last block; `found`
    is how many."""
    rows: list[Row] = await _sql.gaps(
        tx,
        files_version=held["files_version"],
        table_start=held["table_start"],
        table_end=held["cursor"],
        limit=limit,
    )
    return rows


async def ages(tx: Tx, org_id: UUID) -> list[Row]:
    """Of the published datasets that say how old they may be."""
    rows: list[Row] = await _sql.ages(tx, org_id=org_id)
    return rows


async def versions(tx: Tx, dataset_uuid: UUID) -> list[Row]:
    """The generations of a dataset, the newest first."""
    rows: list[Row] = await _sql.versions(tx, dataset_uuid=dataset_uuid)
    return rows


async def partitions(
    tx: Tx,
    dataset_version: UUID,
    first: int | None,
    last: int | None,
    after_start: int | None,
    after_key: str | None,
    limit: int,
) -> list[Row]:
    """Those that lie in or reach into the range, after the one that was the last so far."""
    rows: list[Row] = await _sql.partitions(
        tx,
        dataset_version=dataset_version,
        first=first,
        last=last,
        after_start=after_start,
        after_key=after_key,
        limit=limit,
    )
    return rows


async def building(tx: Tx, org_id: UUID) -> dict[str, Row]:
    """By DAG, the deploy that is being built."""
    return {row["dag_name"]: row for row in await _sql.building(tx, org_id=org_id)}


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


async def outputs_of_generations(tx: Tx, generation_ids: Sequence[UUID]) -> list[Row]:
    """Every dataset that these generations are of."""
    rows: list[Row] = await _sql.outputs_of_generations(tx, generation_ids=list(generation_ids))
    return rows


async def files_of_generations(tx: Tx, generation_ids: Sequence[UUID]) -> dict[UUID, Row]:
    """How much each has in the object store, also of what gave way."""
    rows = await _sql.files_of_generations(tx, generation_ids=list(generation_ids))
    return {row["generation_id"]: row for row in rows}


async def uses(tx: Tx, generation_ids: Sequence[UUID]) -> list[Row]:
    """Why these cannot go: `current`, `active`, `building`, `read` or `task`, and of what."""
    rows: list[Row] = await _sql.uses(tx, generation_ids=list(generation_ids))
    return rows


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
