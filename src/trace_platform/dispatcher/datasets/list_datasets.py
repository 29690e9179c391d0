"""Every dataset with what it holds, and whether it is up to date."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from trace_platform.dispatcher.datasets.judge_datasets import judge_datasets
from trace_platform.dispatcher.datasets.survey_datasets import dataset_label, survey_datasets
from trace_platform.dispatcher.health.standing_alerts import known_wrong
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview, registry
from trace_platform.state.registry import Amounts, DatasetNow
from trace_platform.wire.dataset import DatasetEntries, DatasetEntry, DatasetState

# Of `registry.amounts`, what is said of every dataset.
AMOUNT = ("partitions", "rows", "rows_estimated", "bytes")


async def list_datasets(
    state: Database, data: Database, org_id: UUID, *, everything: bool
) -> DatasetEntries:
    """The published ones by name; with `everything` also outputs that are not."""
    wrong = await known_wrong(data)
    async with overview.snapshot(state) as tx:
        survey = await survey_datasets(tx, org_id)
        rows = [row for row in survey.datasets.values() if everything or row.name is not None]
        held = await registry.amounts(tx, [row.dataset_version for row in rows])
        uuids = [row.dataset_uuid for row in rows]
        judged = await judge_datasets(tx, org_id, survey, uuids, wrong)
    return DatasetEntries(
        datasets=[
            DatasetEntry(
                **entry_fields(row, held[row.dataset_version], judged.state(row.dataset_uuid))
            )
            for row in rows
        ]
    )


def entry_fields(row: DatasetNow, held: Amounts, state: DatasetState) -> dict[str, Any]:
    """Of `registry.datasets` and `registry.amounts`."""
    same = ("name", "dataset_uuid", "output_index", "dataset_version", "newest_at", "age_s")
    return {field: getattr(row, field) for field in same} | {
        "dataset": dataset_label(row),
        "owner": row.metadata.get("owner"),
        "tags": row.metadata.get("tags", []),
        "producer": f"{row.dag_name}.{row.job_name}",
        **{field: getattr(held, field) for field in AMOUNT},
        "state": state,
    }
