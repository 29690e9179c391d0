"""Generations that nobody needs any more are deleted, by hand: first what points at the files, then
the files. Whoever is interrupted in between, the next purge or `finish_purges` finishes it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

import structlog

from trace_platform.data import janitor
from trace_platform.dispatcher.datasets.find_dataset import find_dataset, find_generation
from trace_platform.dispatcher.datasets.survey_datasets import dataset_label
from trace_platform.domain.errors import BadInput, DatasetInUse, UnknownDataset
from trace_platform.domain.prefix import generation_prefix
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import locks, overview, registry
from trace_platform.state.datasets import Dataset
from trace_platform.state.registry import DatasetGeneration
from trace_platform.wire.dataset import PurgedGeneration, PurgePlan, PurgeResponse

log = structlog.get_logger()

# What serves now, and what it can be rolled back to.
KEEP = 2
# Of generations whose files are left over, at a time.
_AT_ONCE = 20
# The most decisive first.
_SAID = {
    "current": "it is what readers of {} see",
    "active": "the active version of DAG '{}' has it",
    "building": "a deploy of DAG '{}' is building it",
    "read": "{} reads it",
    "cold": "it alone holds what has left the table of {}",
    "task": "task {} needs it",
}


async def plan_purge(
    state: Database, org_id: UUID, named: str, generation: str | None, keep: int | None
) -> PurgePlan:
    """What would go: one generation, or all but the newest `keep` of a dataset. Changes nothing."""
    if generation is not None and keep is not None:
        raise BadInput("give one of them: a generation, or how many to keep")
    async with overview.snapshot(state) as tx:
        dataset = await find_dataset(tx, org_id, named)
        if generation is not None:
            rows = [await find_generation(tx, dataset, generation)]
        else:
            found = await registry.versions(tx, dataset.uuid)
            there = [row for row in found if row.purged_at is None]
            rows = there[KEEP if keep is None else keep :]
        return PurgePlan(
            dataset=dataset_label(dataset),
            producer=f"{dataset.dag_name}.{dataset.job_name}",
            generations=await _amounts(tx, rows),
        )


async def purge_generations(
    state: Database,
    data: Database,
    store: ObjectStore,
    bucket: str,
    org_id: UUID,
    named: str,
    versions: Sequence[UUID],
) -> PurgeResponse:
    """Delete these generations of a dataset, with all outputs of its job. Raise DatasetInUse, with
    nothing deleted, when one of them is used. One that is gone already is no error."""
    async with state.transaction() as tx:
        # While it is held no version is deployed or rolled back, so none of these becomes used
        # again; and what is not subscribed to is never routed to.
        await locks.deploys(tx, org_id)
        dataset = await find_dataset(tx, org_id, named)
        rows = await _asked(tx, dataset, versions)
        ids = [row.generation_id for row in rows]
        due = [row.generation_id for row in rows if row.purged_at is None]
        if due:
            # Before looking who needs it: a task that is made to try again waits for this.
            await registry.disown_tasks(tx, due)
            await _refuse_used(tx, rows)
            await registry.purge(tx, due)
    objects = 0
    for generation_id in ids:
        objects += await _clean(state, data, store, bucket, generation_id)
    return PurgeResponse(
        dataset=dataset_label(dataset),
        purged=[row.dataset_version for row in rows],
        objects=objects,
    )


async def finish_purges(state: Database, data: Database, store: ObjectStore, bucket: str) -> int:
    """How many generations had data left of a purge that was interrupted."""
    async with state.transaction() as tx:
        found = await registry.unclean(tx, _AT_ONCE)
    for generation_id in found:
        await _clean(state, data, store, bucket, generation_id)
    return len(found)


async def _clean(
    state: Database, data: Database, store: ObjectStore, bucket: str, generation_id: UUID
) -> int:
    """How many objects were left of a purged generation. Marked after they are gone: a crash
    repeats the deletion, and never forgets it."""
    async with state.transaction() as tx:
        outputs = await registry.outputs_of_generations(tx, [generation_id])
    deleted = 0
    for output in outputs:
        place = generation_prefix(
            bucket, output.org_id, output.dataset_uuid, output.dataset_version
        )
        deleted += await asyncio.to_thread(store.delete_prefix, place)
        async with data.transaction() as hot:
            await janitor.drop_hot_table(hot, output.dataset_version)
    async with state.transaction() as tx:
        if await registry.mark_clean(tx, generation_id):
            log.info("generation_purged", generation=str(generation_id), objects=deleted)
    return deleted


async def _asked(tx: Tx, dataset: Dataset, versions: Sequence[UUID]) -> list[DatasetGeneration]:
    known = {row.dataset_version: row for row in await registry.versions(tx, dataset.uuid)}
    label = dataset_label(dataset)
    for version in versions:
        if version not in known:
            raise UnknownDataset(
                f"'{label}' has no generation {version}", hint=f"trace datasets versions {label}"
            )
    return [known[version] for version in dict.fromkeys(versions)]


async def _refuse_used(tx: Tx, rows: Sequence[DatasetGeneration]) -> None:
    used = await _uses(tx, [row.generation_id for row in rows])
    for row in rows:
        if row.generation_id in used:
            raise DatasetInUse(
                f"generation {row.dataset_version} cannot be purged: {used[row.generation_id]}",
                hint="only what no version uses any more can go: deploy another version first",
            )


async def _uses(tx: Tx, generation_ids: Sequence[UUID]) -> dict[UUID, str]:
    """By generation that is used: the most decisive reason, in words."""
    found: dict[UUID, dict[str, str]] = defaultdict(dict)
    for row in await registry.uses(tx, generation_ids):
        found[row.generation_id].setdefault(row.code, row.said)
    return {
        generation_id: next(_SAID[code].format(said[code]) for code in _SAID if code in said)
        for generation_id, said in found.items()
    }


async def _amounts(tx: Tx, rows: Sequence[DatasetGeneration]) -> list[PurgedGeneration]:
    ids = [row.generation_id for row in rows]
    used = await _uses(tx, [row.generation_id for row in rows if row.purged_at is None])
    held = await registry.files_of_generations(tx, ids)
    outputs: dict[UUID, list[str]] = defaultdict(list)
    for output in await registry.outputs_of_generations(tx, ids):
        outputs[output.generation_id].append(output.dataset)
    return [
        PurgedGeneration(
            dataset_version=row.dataset_version,
            generation_id=row.generation_id,
            created_at=row.created_at,
            in_use=used.get(row.generation_id),
            purged_at=row.purged_at,
            datasets=outputs[row.generation_id],
            dag_versions=row.dag_versions,
            partitions=held[row.generation_id].partitions,
            rows=held[row.generation_id].rows,
            bytes=held[row.generation_id].bytes,
            files=held[row.generation_id].files,
        )
        for row in rows
    ]
