"""What attempts left in the object store, and who still needs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)

Attempt = tuple[UUID, int]


class Verdict(NamedTuple):
    """Over: its fence is lost for good. Forgotten: its task is not on record, and unless it is
    over too it never was."""

    over: bool
    forgotten: bool


class Committed(NamedTuple):
    """The files of all partitions at a place, and whether whoever wrote them has ended."""

    files: frozenset[str]
    settled: bool


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """Where a task writes."""

    task_id: UUID
    org_id: UUID
    dataset_uuid: UUID
    dataset_version: UUID


async def close_late(tx: Tx, grace_s: float) -> int:
    """How many tasks that failed for good take a late answer no more."""
    closed: int = await _sql.close_late(tx, grace_s=grace_s)
    return closed


async def due_leftovers(tx: Tx, grace_s: float, limit: int, lease_s: float) -> list[Attempt]:
    """The caller's for so long; what another has is passed over."""
    rows = await _sql.due_leftovers(tx, grace_s=grace_s, limit=limit, lease_s=lease_s)
    return [(row["task_id"], row["attempt"]) for row in rows]


async def forget_leftovers(tx: Tx, attempts: Sequence[Attempt]) -> None:
    await _sql.forget_leftovers(tx, **_columns(attempts))


async def outputs_of(tx: Tx, task_ids: Iterable[UUID]) -> list[OutputPlace]:
    return await _sql.rows(tx, "outputs_of", OutputPlace, task_ids=list(set(task_ids)))


async def judge(tx: Tx, attempts: Iterable[Attempt], grace_s: float) -> dict[Attempt, Verdict]:
    rows = await _sql.judge_attempts(tx, **_columns(list(attempts)), grace_s=grace_s)
    return {
        (row["task_id"], row["attempt"]): Verdict(row["over"], row["forgotten"]) for row in rows
    }


async def pointed_at(tx: Tx, places: Iterable[str], grace_s: float) -> dict[str, Committed]:
    """By place that a partition points at, current or superseded."""
    found: dict[str, Committed] = {}
    for row in await _sql.pointed_at(tx, locations=list(places), grace_s=grace_s):
        before = found.get(row["location"], Committed(frozenset(), True))
        names = frozenset(file["name"] for file in row["files"])
        found[row["location"]] = Committed(
            before.files | names, before.settled and bool(row["settled"])
        )
    return found


async def published(tx: Tx, task_ids: Iterable[UUID]) -> set[tuple[UUID, UUID, int]]:
    """Dataset, task and attempt of batches that were handed to a sink."""
    rows = await _sql.published(tx, task_ids=list(set(task_ids)))
    return {(row["dataset_uuid"], row["task_id"], row["attempt"]) for row in rows}


async def known_generations(tx: Tx, versions: Iterable[UUID]) -> set[tuple[UUID, UUID]]:
    """Dataset and version of those that are on record, purged or not."""
    rows = await _sql.known_generations(tx, versions=list(set(versions)))
    return {(row["dataset_uuid"], row["version"]) for row in rows}


async def known_datasets(tx: Tx, uuids: Iterable[UUID]) -> set[UUID]:
    return {row["uuid"] for row in await _sql.known_datasets(tx, uuids=list(set(uuids)))}


async def before(tx: Tx, grace_s: float) -> datetime:
    moment: datetime = await _sql.before(tx, grace_s=grace_s)
    return moment


async def take_walk(tx: Tx, every_s: float) -> str | None:
    """Where the walk stopped, when the next piece of it is ours."""
    row: Row | None = await _sql.take_walk(tx, every_s=every_s)
    return row["position"] if row else None


async def walked_to(tx: Tx, position: str) -> None:
    await _sql.walked_to(tx, position=position)


def _columns(attempts: Sequence[Attempt]) -> dict[str, list[UUID] | list[int]]:
    return {
        "task_ids": [task_id for task_id, _ in attempts],
        "attempts": [attempt for _, attempt in attempts],
    }
