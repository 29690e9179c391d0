"""Which datasets are known to have wrong rows: of their own, or among those that left the table."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from trace_platform.data.alerts_read import StandingAlert
from trace_platform.dispatcher.datasets.survey_datasets import dataset_label
from trace_platform.dispatcher.health.standing_alerts import by_dataset, of_version
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import query_datasets, registry
from trace_platform.state.registry import DatasetNow


async def wrong_datasets(tx: Tx, org_id: UUID, alerts: Iterable[StandingAlert]) -> dict[str, int]:
    """By published name: how many critical alerts that stand say so of what readers are given."""
    wrong = by_dataset(alerts)
    if not wrong:
        return {}
    published = [row for row in await registry.datasets(tx, org_id) if row.name]
    parts = await parts_read(tx, published)
    counts = {
        dataset_label(row): sum(len(of_version(wrong, *part)) for part in parts[row.dataset_uuid])
        for row in published
    }
    return {name: count for name, count in counts.items() if count}


async def parts_read(tx: Tx, datasets: Iterable[DatasetNow]) -> dict[UUID, list[tuple[UUID, UUID]]]:
    """Of each dataset what its readers are given, as dataset and version: of a table also the files
    of what has left it."""
    rows = list(datasets)
    parts = {row.dataset_uuid: [(row.dataset_uuid, row.dataset_version)] for row in rows}
    tables = {row.dataset_version: row.dataset_uuid for row in rows if row.table_name}
    cold = await query_datasets.cold_parts(tx, list(tables)) if tables else {}
    for version, part in cold.items():
        parts[tables[version]].append((part.cold_uuid, part.cold_version))
    return parts
