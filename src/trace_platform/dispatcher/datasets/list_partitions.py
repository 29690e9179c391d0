"""The partitions of a generation of a dataset, a page at a time."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from trace_platform.dispatcher.datasets.find_dataset import find_files
from trace_platform.dispatcher.datasets.survey_datasets import dataset_label
from trace_platform.domain.errors import BadInput
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import datasets, overview, query_datasets, registry
from trace_platform.state.datasets import Dataset
from trace_platform.wire.dataset import (
    DatasetFiles,
    Partition,
    PartitionColumns,
    PartitionFiles,
    Partitions,
)

_RANGE, _KEY = "range:", "key:"
_LARGEST = 2**63 - 1


async def list_partitions(
    state: Database,
    org_id: UUID,
    named: str,
    first: int | None,
    last: int | None,
    at: str | None,
    after: str | None,
    limit: int,
) -> Partitions:
    """Those that reach into the blocks `first` to `last`, after the page before; of the current
    generation unless `at` names another."""
    after_start, after_key = _place(after)
    async with overview.snapshot(state) as tx:
        dataset, version, cold_of = await find_files(tx, org_id, named, at)
        rows = await registry.partitions(
            tx, version, first, last, after_start, after_key, limit + 1
        )
    shown = [Partition.model_validate(row, from_attributes=True) for row in rows[:limit]]
    return Partitions(
        dataset=dataset_label(dataset),
        dataset_version=version,
        cold_of=cold_of,
        partitions=shown,
        next=mark(shown[-1]) if len(rows) > limit else None,
    )


async def list_partition_columns(
    state: Database, org_id: UUID, named: str, at: str | None, after: str | None, limit: int
) -> PartitionColumns:
    """After the page before; of the current generation unless `at` names another."""
    after_start, after_key = _place(after)
    async with overview.snapshot(state) as tx:
        _, version, _ = await find_files(tx, org_id, named, at)
        found = await registry.partition_columns(tx, version, after_start, after_key, limit)
    full = len(found.rows) == limit
    return PartitionColumns(
        dataset_version=version,
        next=_mark(found.start[-1], found.key[-1]) if full else None,
        **asdict(found),
    )


async def list_files(
    state: Database, org_id: UUID, named: str, at: str | None, after: str | None, limit: int
) -> DatasetFiles:
    """Every partition with its files, after the page before; of the current generation unless `at`
    names another. Raise BadInput for a table that has none."""
    after_start, after_key = _place(after)
    async with overview.snapshot(state) as tx:
        dataset, version, cold_of = await find_files(tx, org_id, named, at)
        count = await datasets.count_partitions(tx, version)
        if not count and cold_of is None:
            await _refuse_table(tx, org_id, dataset, version)
        rows = await datasets.partition_files(tx, version, after_start, after_key, limit + 1)
    shown = [PartitionFiles(**asdict(row)) for row in rows[:limit]]
    return DatasetFiles(
        dataset=dataset_label(dataset),
        dataset_version=version,
        cold_of=cold_of,
        current=version == dataset.current_version,
        count=count,
        partitions=shown,
        next=mark(shown[-1]) if len(rows) > limit else None,
    )


async def _refuse_table(tx: Tx, org_id: UUID, dataset: Dataset, version: UUID) -> None:
    if (await query_datasets.described(tx, org_id, [version]))[version].is_table:
        raise BadInput(
            f"'{dataset_label(dataset)}' is a table in Postgres: it has no files",
            hint="a dataset that compacts it has some: trace datasets list --all",
        )


def mark(last: Partition | PartitionFiles) -> str:
    """Where a page goes on whose last one this was."""
    return _mark(last.start, last.partition_key)


def _mark(start: int | None, key: str | None) -> str:
    return f"{_KEY}{key}" if start is None else f"{_RANGE}{start}"


def _place(after: str | None) -> tuple[int | None, str | None]:
    if after is None:
        return None, None
    if after.startswith(_KEY):
        return None, after.removeprefix(_KEY)
    start = after.removeprefix(_RANGE)
    if not (after.startswith(_RANGE) and start.isascii() and start.isdigit()):
        raise BadInput(f"'{after}' is no place to go on from", hint="give `next` of the last page")
    if int(start) > _LARGEST:
        raise BadInput(f"'{after}' lies beyond every block")
    return int(start), None
