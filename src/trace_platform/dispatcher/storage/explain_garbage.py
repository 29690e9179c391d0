"""What is kept in the object store: by generation, by which rule, and who holds it back."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from trace_platform.dispatcher.datasets.survey_datasets import dataset_label
from trace_platform.dispatcher.storage.retire_superseded import Retention
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview, superseded
from trace_platform.state.superseded import StoredBytes
from trace_platform.wire.dataset import GarbageExplanation, KeptFiles

_SAME = (
    "dataset_version",
    "current",
    "live_bytes",
    "superseded_bytes",
    "pinned_bytes",
    "retired_bytes",
    "superseded_partitions",
)


async def explain_garbage(state: Database, org_id: UUID, keep: Retention) -> GarbageExplanation:
    """Changes nothing."""
    async with overview.snapshot(state) as tx:
        reader = await superseded.oldest_reader(tx)
        rows = await superseded.bytes_of(tx, org_id, None, reader)
    return GarbageExplanation(
        superseded_days=keep.superseded_days,
        superseded_versions=keep.superseded_versions,
        reader_grace_s=keep.reader_grace_s,
        oldest_reader=reader.task_id if reader else None,
        oldest_reader_since=reader.started_at if reader else None,
        generations=[_kept(row, keep) for row in rows if row.live_bytes + row.superseded_bytes],
    )


def _kept(row: StoredBytes, keep: Retention) -> KeptFiles:
    oldest = row.oldest_superseded_at
    return KeptFiles(
        **{field: getattr(row, field) for field in _SAME},
        dataset=dataset_label(row),
        next_retired_at=oldest and oldest + timedelta(days=keep.superseded_days),
    )
