"""Parts of datasets that are not right any more, and the tasks that put them right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.freshness import Given
from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInvalidation:
    """A part of a version of a dataset that is said to be invalid, by an attempt or by hand."""

    id: UUID
    org_id: UUID
    dataset_uuid: UUID
    dataset_version: UUID
    scope: str
    partition_key: str | None
    start: int | None
    end: int | None
    # Whether it is right again, and only its readers have to do their work once more.
    remade: bool
    reason: str
    task_id: UUID | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class InvalidPart:
    """What of which version is invalid."""

    id: UUID
    org_id: UUID
    dataset_uuid: UUID
    dataset_version: UUID
    partition_key: str | None
    range_start: int | None
    range_end: int | None
    remade: bool


@dataclass(frozen=True, slots=True)
class RecordedInvalidation(InvalidPart):
    reason: str
    note: str | None


@dataclass(frozen=True, slots=True)
class DueInvalidation(InvalidPart):
    """One that is not routed: which generation made the part, and how urgent it is (None: as its
    job is)."""

    generation_id: UUID | None
    priority: int | None


@dataclass(frozen=True, slots=True)
class Reader:
    """A generation that is given what happens to a dataset, and its job as DAG.JOB."""

    generation_id: UUID
    name: str
    held: bool


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A task that an invalidation made and nobody started."""

    id: UUID
    generation_id: UUID
    inputs: list[Given]


@dataclass(frozen=True, slots=True)
class ListedInvalidation:
    """An invalidation as lists show it, with the tasks that put it right."""

    invalidation_id: UUID
    dataset_uuid: UUID
    dataset_version: UUID
    dataset: str
    scope: str
    partition_key: str | None
    start: int | None
    end: int | None
    remade: bool
    reason: str
    cause_task_id: UUID | None
    created_at: datetime
    routed_at: datetime | None
    processed_at: datetime | None
    merged_into: UUID | None
    note: str | None
    tasks: int
    tasks_done: int
    failed_task_id: UUID | None


# What stands for several of them, the range of all, and they themselves.
Merged = tuple[DueInvalidation, BlockRange | None, Sequence[DueInvalidation]]


async def record(tx: Tx, new: Sequence[NewInvalidation]) -> int:
    """How many of these are new: one that was recorded under its id before changes nothing."""
    made: int = await _sql.record(tx, rows=Jsonb(new, dumps=msgspec.json.encode))
    return made


async def follow(tx: Tx, moved: Mapping[UUID, UUID]) -> None:
    """By dataset, the version that is current now: what waits of others is about that one."""
    await _sql.follow(tx, uuids=list(moved), versions=list(moved.values()))


async def get(tx: Tx, invalidation_id: UUID) -> RecordedInvalidation | None:
    return await _sql.row(tx, "get", RecordedInvalidation, id=invalidation_id)


async def due(tx: Tx, datasets: int) -> list[DueInvalidation]:
    """All that is not routed of at most so many datasets."""
    return await _sql.rows(tx, "due", DueInvalidation, datasets=datasets)


async def merge(tx: Tx, leads: Sequence[Merged]) -> None:
    """Each lead stands for its members, itself among them, and for all of their range."""
    members = [(each.id, lead.id, span) for lead, span, all_of_it in leads for each in all_of_it]
    await _sql.merge(
        tx,
        ids=[member for member, _, _ in members],
        leads=[lead for _, lead, _ in members],
        firsts=[span.start if span else None for _, _, span in members],
        lasts=[span.end if span else None for _, _, span in members],
    )


async def readers(tx: Tx, dataset_version: UUID) -> list[Reader]:
    """The generations, and their jobs as DAG.JOB, that are given what happens to it."""
    return await _sql.rows(tx, "readers", Reader, dataset_version=dataset_version)


async def waiting_tasks(
    tx: Tx, dataset_version: UUID, generation_ids: Sequence[UUID]
) -> list[WaitingTask]:
    """Tasks of these generations that earlier invalidations of the dataset made and nobody
    started; they stay so until the transaction ends."""
    return await _sql.rows(
        tx,
        "waiting_tasks",
        WaitingTask,
        dataset_version=dataset_version,
        generation_ids=list(generation_ids),
    )


async def link(tx: Tx, invalidation_id: UUID, task_ids: Sequence[UUID]) -> None:
    await _sql.link(tx, id=invalidation_id, task_ids=list(task_ids))


async def give(tx: Tx, lead: InvalidPart, task: WaitingTask) -> None:
    """The lead's event is with this task already, as far as the task's generation goes."""
    await _sql.give(
        tx,
        dataset_version=lead.dataset_version,
        id=lead.id,
        generation_id=task.generation_id,
        task_id=task.id,
    )


async def process_now(tx: Tx, lead: InvalidPart, note: str | None) -> None:
    """Nobody has anything to do for it."""
    await _sql.process_now(tx, id=lead.id, dataset_version=lead.dataset_version, note=note)


async def close_tasks(tx: Tx, task_ids: Sequence[UUID]) -> int:
    """These tasks have done what they were made for. How many invalidations are processed by it."""
    held = [row["id"] for row in await _sql.hold_of_tasks(tx, task_ids=list(task_ids))]
    if not held:
        return 0
    await _sql.close_tasks(tx, task_ids=list(task_ids))
    return len(await _sql.process(tx, ids=held))


async def abandoned(tx: Tx, limit: int) -> list[UUID]:
    """Tasks that invalidations wait for in vain."""
    return [row["task_id"] for row in await _sql.abandoned(tx, limit=limit)]


async def process_left(tx: Tx, limit: int) -> int:
    """How many were processed that have no task left, and nobody that they are owed to."""
    held = [row["id"] for row in await _sql.open_leads(tx, limit=limit)]
    return len(await _sql.process(tx, ids=held)) if held else 0


async def listing(
    tx: Tx, org_id: UUID, dataset_uuid: UUID | None, limit: int, *, open_only: bool
) -> list[ListedInvalidation]:
    return await _sql.rows(
        tx,
        "listing",
        ListedInvalidation,
        org_id=org_id,
        dataset_uuid=dataset_uuid,
        open=open_only,
        limit=limit,
    )
