"""Datasets as those see them who query: a list of all, and a page of each."""

from __future__ import annotations

import re
from uuid import UUID

from trace_platform.dispatcher.datasets.judge_datasets import judge_datasets
from trace_platform.dispatcher.datasets.known_columns import known_columns
from trace_platform.dispatcher.datasets.list_datasets import entry_fields
from trace_platform.dispatcher.datasets.list_partitions import list_partitions, mark
from trace_platform.dispatcher.datasets.show_dataset import list_generations, show_dataset
from trace_platform.dispatcher.datasets.survey_datasets import survey_datasets
from trace_platform.dispatcher.datasets.trace_lineage import trace_lineage
from trace_platform.dispatcher.health.standing_alerts import known_wrong
from trace_platform.domain.errors import UnknownDataset
from trace_platform.domain.prefix import delivery_key
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview, query_datasets, registry
from trace_platform.wire.dataset import Partition, Partitions
from trace_platform.wire.query import DatasetList, DatasetPage, DatasetSummary
from trace_platform.wire.query_columns import query_columns

# Of a page: partitions, and how many datasets away its neighbours may be.
_PARTITIONS, _DEPTH = 100, 3
_DIGEST = re.compile(r"[0-9a-f]{64}")


async def summarize_datasets(state: Database, data: Database, org_id: UUID) -> DatasetList:
    """The published ones by name, and whether they are up to date."""
    wrong = await known_wrong(data)
    async with overview.snapshot(state) as tx:
        survey = await survey_datasets(tx, org_id)
        rows = [row for row in survey.datasets.values() if row.name is not None]
        versions = [row.dataset_version for row in rows]
        held = await registry.amounts(tx, versions)
        uuids = [row.dataset_uuid for row in rows]
        judged = await judge_datasets(tx, org_id, survey, uuids, wrong)
        described = await query_datasets.described(tx, org_id, versions)
    summaries = []
    for row in rows:
        version = row.dataset_version
        entry = entry_fields(row, held[version], judged.state(row.dataset_uuid))
        same = ("name", "dataset_uuid", "dataset_version", "state", "newest_at")
        summaries.append(
            DatasetSummary(
                **{field: entry[field] for field in same},
                columns=query_columns(known_columns(described[version])),
                row_count=entry["rows"],
                rows_estimated=entry["rows_estimated"],
                description=row.metadata.get("description"),
                pii=described[version].pii,
            )
        )
    return DatasetList(datasets=summaries)


async def dataset_page(
    state: Database, data: Database, bucket: str, org_id: UUID, named: str
) -> DatasetPage:
    """Raise UnknownDataset when nothing is published under that name. Each part is of a moment of
    its own."""
    detail = await show_dataset(state, data, bucket, org_id, named)
    if detail.name is None:
        raise UnknownDataset(f"there is no published dataset '{named}'")
    # By what it is called, so that the parts are of one dataset; a job may be called as `named`.
    label, version = detail.dataset, detail.dataset_version
    async with overview.snapshot(state) as tx:
        described = await query_datasets.described(tx, org_id, [version])
    partitions = await list_partitions(
        state, org_id, label, None, None, str(version), None, _PARTITIONS
    )
    return DatasetPage(
        columns=query_columns(known_columns(described[version])),
        # Where its rows lie is nothing for those who only query.
        detail=detail.model_copy(update={"location": "", "table": None}),
        versions=(await list_generations(state, org_id, label)).versions,
        partitions=_without_ids(partitions),
        lineage=await trace_lineage(state, org_id, label, None, "both", _DEPTH),
    )


def _without_ids(found: Partitions) -> Partitions:
    """Deliveries that came when a webhook's ids were still keys, by what they are called today."""
    shown = [_without_id(each) for each in found.partitions]
    return found.model_copy(
        update={"partitions": shown, "next": mark(shown[-1]) if found.next else None}
    )


def _without_id(partition: Partition) -> Partition:
    is_delivery = partition.task_id is None and partition.start is None
    if not is_delivery or _DIGEST.fullmatch(partition.partition_key):
        return partition
    return partition.model_copy(update={"partition_key": delivery_key(partition.partition_key)})
