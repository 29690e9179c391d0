"""Parts of datasets that are not right any more, and the tasks that put them right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


async def record(tx: Tx, rows: list[dict[str, Any]]) -> int:
    """How many of these are new: one that was recorded under its id before changes nothing."""
    new: int = await _sql.record(tx, rows=Jsonb(rows))
    return new


async def follow(tx: Tx, moved: Mapping[UUID, UUID]) -> None:
    """By dataset, the version that is current now: what waits of others is about that one."""
    await _sql.follow(tx, uuids=list(moved), versions=list(moved.values()))


async def get(tx: Tx, invalidation_id: UUID) -> Row | None:
    row: Row | None = await _sql.get(tx, id=invalidation_id)
    return row


async def due(tx: Tx, datasets: int) -> list[Row]:
    """All that is not routed of at most so many datasets."""
    rows: list[Row] = await _sql.due(tx, datasets=datasets)
    return rows


async def merge(tx: Tx, leads: Sequence[tuple[Row, BlockRange | None, Sequence[Row]]]) -> None:
    """Each lead stands for its members, itself among them, and for all of their range."""
    members = [(row["id"], lead["id"], span) for lead, span, rows in leads for row in rows]
    await _sql.merge(
        tx,
        ids=[member for member, _, _ in members],
        leads=[lead for _, lead, _ in members],
        firsts=[span.start if span else None for _, _, span in members],
        lasts=[span.end if span else None for _, _, span in members],
    )


async def readers(tx: Tx, dataset_version: UUID) -> list[Row]:
    """The generations, and their jobs as DAG.JOB, that are given what happens to it."""
    rows: list[Row] = await _sql.readers(tx, dataset_version=dataset_version)
    return rows


async def waiting_tasks(tx: Tx, dataset_version: UUID, generation_ids: Sequence[UUID]) -> list[Row]:
    """Tasks of these generations that earlier invalidations of the dataset made and nobody
    started; they stay so until the transaction ends."""
    rows: list[Row] = await _sql.waiting_tasks(
        tx, dataset_version=dataset_version, generation_ids=list(generation_ids)
    )
    return rows


async def link(tx: Tx, invalidation_id: UUID, task_ids: Sequence[UUID]) -> None:
    await _sql.link(tx, id=invalidation_id, task_ids=list(task_ids))


async def give(tx: Tx, lead: Row, task: Row) -> None:
    """The lead's event is with this task already, as far as the task's generation goes."""
    await _sql.give(
        tx,
        dataset_version=lead["dataset_version"],
        id=lead["id"],
        generation_id=task["generation_id"],
        task_id=task["id"],
    )


async def process_now(tx: Tx, lead: Row, note: str | None) -> None:
    """Nobody has anything to do for it."""
    await _sql.process_now(tx, id=lead["id"], dataset_version=lead["dataset_version"], note=note)


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
) -> list[Row]:
    rows: list[Row] = await _sql.listing(
        tx, org_id=org_id, dataset_uuid=dataset_uuid, open=open_only, limit=limit
    )
    return rows
