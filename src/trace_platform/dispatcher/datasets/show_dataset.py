"""One dataset: what is said of it, what it holds and lacks, where it comes from and goes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from trace_platform.dag.model.declared_columns import Declared, misfits
from trace_platform.dispatcher.datasets.explain_dataset import answer_of
from trace_platform.dispatcher.datasets.find_dataset import find_dataset
from trace_platform.dispatcher.datasets.judge_datasets import judge_datasets, max_age_of
from trace_platform.dispatcher.datasets.known_columns import known_columns
from trace_platform.dispatcher.datasets.list_datasets import AMOUNT, entry_fields
from trace_platform.dispatcher.datasets.survey_datasets import (
    dataset_label,
    job_label,
    survey_datasets,
)
from trace_platform.dispatcher.health.standing_alerts import known_wrong
from trace_platform.domain.prefix import generation_prefix
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview, query_datasets, registry, superseded
from trace_platform.state.registry import Amounts, DatasetNow
from trace_platform.state.superseded import StoredBytes
from trace_platform.wire.dataset import (
    MAX_GAPS,
    BlockGap,
    ColdPart,
    DatasetDetail,
    DatasetVersion,
    DatasetVersions,
    FileBytes,
)
from trace_platform.wire.manifest import ManifestColumn


async def show_dataset(
    state: Database,
    data: Database,
    bucket: str,
    org_id: UUID,
    named: str,
    *,
    messages: bool = False,
) -> DatasetDetail:
    """Raise UnknownDataset when nothing has that name. `messages`: of errors, for owners alone."""
    wrong = await known_wrong(data)
    async with overview.snapshot(state) as tx:
        found = await find_dataset(tx, org_id, named)
        survey = await survey_datasets(tx, org_id)
        row = survey.datasets[found.uuid]
        version = row.dataset_version
        held = (await registry.amounts(tx, [version]))[version]
        gaps = await registry.gaps(tx, held, MAX_GAPS)
        versions = await registry.versions(tx, row.dataset_uuid)
        judged = await judge_datasets(
            tx, org_id, survey, [row.dataset_uuid], wrong, messages=messages
        )
        reader = await superseded.oldest_reader(tx)
        (files,) = await superseded.bytes_of(tx, org_id, [version], reader)
        described = (await query_datasets.described(tx, org_id, [version]))[version]
        cold = (await query_datasets.cold_parts(tx, [version])).get(version)
    metadata, uuid = row.metadata, row.dataset_uuid
    declared, committed = metadata.get("schema") or {}, known_columns(described)
    above = survey.reads.get(survey.producer(uuid), [])
    return DatasetDetail(
        **entry_fields(row, held, judged.state(uuid)),
        answer=answer_of(row, judged.state(uuid), judged.reasons(uuid)),
        description=metadata.get("description"),
        storage="postgres" if row.table_name else metadata.get("storage", "parquet"),
        write_mode=metadata.get("write_mode"),
        columns=_columns(declared, committed) or None,
        misfits=[str(each) for each in misfits(declared, committed)] if committed else [],
        pii=metadata.get("pii", []),
        max_age_s=max_age_of(row),
        generation_id=row.generation_id,
        generations=len(versions),
        location=generation_prefix(bucket, org_id, uuid, version),
        table=f"postgres_table:dataset_{version.hex}" if row.table_name else None,
        files=None if row.table_name else file_bytes(files),
        cursor=row.cursor,
        cold=_cold(survey.datasets[cold.cold_uuid], held) if cold else None,
        first_block=held.first_block,
        last_block=held.last_block,
        gap_count=gaps[0].found if gaps else 0,
        gaps=[BlockGap(start=gap.start, end=gap.end) for gap in gaps],
        upstream=[dataset_label(survey.datasets[each]) for each in above],
        downstream=[job_label(job) for job in survey.readers.get(uuid, [])],
    )


def file_bytes(row: StoredBytes) -> FileBytes:
    return FileBytes(**{field: getattr(row, field) for field in FileBytes.model_fields})


def _cold(dataset: DatasetNow, held: Amounts) -> ColdPart:
    return ColdPart(
        dataset=dataset_label(dataset),
        dataset_version=held.files_version,
        partitions=held.partitions,
        rows=held.file_rows,
        bytes=held.bytes,
    )


def _columns(declared: Declared, committed: Sequence[ManifestColumn]) -> dict[str, dict[str, Any]]:
    """What the DAG's file says of each column and what the commits say, those of the file first."""
    there = {column.name.lower(): column for column in committed}
    said = {
        name: {**column, "declared": column["type"]} | _committed(there.pop(name.lower(), None))
        for name, column in declared.items()
    }
    return said | {
        column.name: {"type": column.type, "declared": None} | _committed(column)
        for column in there.values()
    }


def _committed(column: ManifestColumn | None) -> dict[str, Any]:
    if column is None:
        return {"committed": None, "nullable": None}
    return {"committed": column.type, "nullable": column.nullable}


async def list_generations(state: Database, org_id: UUID, named: str) -> DatasetVersions:
    """The newest first, also those that were purged."""
    async with overview.snapshot(state) as tx:
        dataset = await find_dataset(tx, org_id, named)
        rows = await registry.versions(tx, dataset.uuid)
        held = await registry.amounts(tx, [row.dataset_version for row in rows])
    same = [f for f in DatasetVersion.model_fields if f not in AMOUNT]
    return DatasetVersions(
        dataset=dataset_label(dataset),
        versions=[
            DatasetVersion(
                **{field: getattr(row, field) for field in same},
                **{field: getattr(held[row.dataset_version], field) for field in AMOUNT},
            )
            for row in rows
        ],
    )
