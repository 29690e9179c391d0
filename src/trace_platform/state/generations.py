"""Generations: what a job makes while it means the same, and who is given what of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)

DatasetIds = Mapping[tuple[str, int], UUID]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What generations have left to do. None of it: they are built."""

    tasks: int
    # Events on their way to become tasks.
    routes: int
    # Tasks that failed for good, or were canceled, and one of them.
    failed: int
    failed_task_id: UUID | None

    @property
    def done(self) -> bool:
        return not (self.tasks or self.routes or self.failed)


@dataclass(frozen=True, slots=True)
class EdgeElsewhere:
    """A job of another DAG, and a job whose output it reads."""

    reader_dag: str
    reader_job: str
    dag_name: str
    job_name: str


@dataclass(frozen=True, slots=True)
class KeptGeneration:
    """A generation whose data was not purged. No fingerprint: it is from before there were any."""

    id: UUID
    job_name: str
    fingerprint: str | None
    built_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EdgeWithin:
    """What a generation is made of (None: of another than those asked for), and whether that wakes
    it."""

    generation_id: UUID
    above: UUID | None
    trigger: bool


@dataclass(frozen=True, slots=True)
class OtherReader:
    """A job of another DAG, and what it reads."""

    dag_name: str
    job_name: str
    dataset: str


async def unnamed(tx: Tx, dag_version_id: UUID) -> dict[str, UUID]:
    """By job of a version: its generation, where that is from before there were fingerprints."""
    rows = await _sql.unnamed(tx, dag_version_id=dag_version_id)
    return {row["name"]: row["id"] for row in rows}


async def name_generation(tx: Tx, generation_id: UUID, fingerprint: str) -> None:
    await _sql.name_generation(tx, id=generation_id, fingerprint=fingerprint)


async def edges_elsewhere(tx: Tx, org_id: UUID, dag_name: str) -> list[EdgeElsewhere]:
    """Who reads whom, of all readers that are not of this DAG."""
    return await _sql.rows(tx, "edges_elsewhere", EdgeElsewhere, org_id=org_id, dag_name=dag_name)


async def kept(tx: Tx, org_id: UUID, dag_name: str) -> list[KeptGeneration]:
    """Those of a DAG whose data was not purged."""
    return await _sql.rows(tx, "kept", KeptGeneration, org_id=org_id, dag_name=dag_name)


async def ensure(
    tx: Tx,
    org_id: UUID,
    dag_name: str,
    fingerprints: Mapping[str, str],
    outputs: Mapping[str, int],
    datasets: DatasetIds,
) -> dict[str, UUID]:
    """By job: the generation of its fingerprint, with its datasets, made when it is new."""
    rows = await _sql.ensure_generations(
        tx,
        org_id=org_id,
        dag_name=dag_name,
        job_names=list(fingerprints),
        fingerprints=list(fingerprints.values()),
        outputs=[outputs[name] for name in fingerprints],
        dataset_jobs=[job for job, _ in datasets],
        dataset_indexes=[index for _, index in datasets],
        dataset_uuids=list(datasets.values()),
    )
    return {row["job_name"]: row["id"] for row in rows}


async def subscribe(tx: Tx, org_id: UUID) -> None:
    """Route by the versions that are active or being built now. The caller holds the lock."""
    await _sql.unsubscribe(tx, org_id=org_id)
    await _sql.subscribe(tx, org_id=org_id)


async def edges_within(tx: Tx, generation_ids: Sequence[UUID]) -> list[EdgeWithin]:
    """Which of these each of them is made of, None for any other, and whether that wakes it."""
    return await _sql.rows(tx, "edges_within", EdgeWithin, generation_ids=list(generation_ids))


async def owe_missing(
    tx: Tx, generation_ids: Sequence[UUID], again: UUID | None = None
) -> dict[UUID, int]:
    """How many events each of these was never given and is owed now. `again` names the occasion:
    tasks that were made of them before it do not count. The caller holds the lock of routing."""
    owed: dict[UUID, int] = {}
    # One at a time: the larger the data, the more time each statement may take.
    for generation_id in generation_ids:
        rows = await _sql.owe_missing(tx, generation_ids=[generation_id], again=again)
        owed |= {row["generation_id"]: row["events"] for row in rows}
    return owed


async def give_again(
    tx: Tx,
    org_id: UUID,
    dag_name: str,
    dataset_uuids: Sequence[UUID],
    dataset_versions: Sequence[UUID],
    again: UUID,
) -> None:
    """Other DAGs are given all of these datasets, in these versions: they are current again, or
    for the first time, or under this name."""
    if not await _sql.read_elsewhere(
        tx, org_id=org_id, dag_name=dag_name, dataset_uuids=list(dataset_uuids)
    ):
        return
    await _sql.forget_inputs(
        tx, org_id=org_id, dag_name=dag_name, dataset_versions=list(dataset_versions)
    )
    rows = await _sql.readers_elsewhere(
        tx, org_id=org_id, dag_name=dag_name, dataset_uuids=list(dataset_uuids)
    )
    readers = [row["generation_id"] for row in rows]
    if readers:
        await owe_missing(tx, readers, again)
        await redo_outlived(tx, readers)


async def redo_outlived(tx: Tx, generation_ids: Sequence[UUID]) -> None:
    """What these made of versions that gave way is read again where the current ones hold nothing:
    nothing else would wake them for it."""
    await _sql.redo_outlived(tx, generation_ids=list(generation_ids))


async def mark_built(tx: Tx, generation_ids: Sequence[UUID]) -> None:
    await _sql.mark_built(tx, generation_ids=list(generation_ids))


async def supersede_tasks(tx: Tx, generation_ids: Sequence[UUID], said: str) -> int:
    """How many tasks had not ended: they do, and commit nothing any more."""
    ended: int = await _sql.supersede_tasks(tx, generation_ids=list(generation_ids), said=said)
    return ended


async def open_tasks(tx: Tx, generation_ids: Sequence[UUID]) -> int:
    """How many tasks of these have not ended."""
    found: int = await _sql.open_tasks(tx, generation_ids=list(generation_ids))
    return found


async def readers_of_dag(tx: Tx, org_id: UUID, dag_name: str) -> list[OtherReader]:
    """Jobs of other DAGs that read a dataset of this one."""
    return await _sql.rows(tx, "readers_of_dag", OtherReader, org_id=org_id, dag_name=dag_name)


async def revive_tasks(tx: Tx, generation_ids: Sequence[UUID]) -> None:
    """What was superseded of these goes on; of those that were never built, also what failed."""
    await _sql.revive_tasks(tx, generation_ids=list(generation_ids))


async def hand_over_tasks(tx: Tx, definitions: Mapping[UUID, UUID]) -> None:
    """By generation: the definition under which what has not ended goes on."""
    await _sql.hand_over_tasks(
        tx, generation_ids=list(definitions), job_ids=list(definitions.values())
    )


async def unfinished(tx: Tx, generation_ids: Sequence[UUID]) -> Unfinished:
    found = await _sql.row(tx, "unfinished", Unfinished, generation_ids=list(generation_ids))
    assert found is not None, "it counts"
    return found
