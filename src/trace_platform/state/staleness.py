"""How far generations are behind what their inputs hold now: for people, alerts and repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)

# Of cursors, which no partition replaces, the newest are looked at: what is older was when it was
# new, and would be ever more.
NEWEST_CURSORS = 10_000


@dataclass(frozen=True, slots=True)
class Staleness:
    """Of one generation: the events that its inputs hold now, and what became of them."""

    generation_id: UUID
    current: int
    # No task has them: because a deploy holds them, they are not routed yet, are owed to the
    # router, or by accident (lost).
    not_given: int
    held: int
    not_routed: int
    owed: int
    lost: int
    first_not_given: int | None
    # Tasks that have not ended.
    unfinished: int
    running: int
    ready: int
    deferred: int
    retrying: int
    # Tasks that ended badly and have an event that is current, and some of them.
    failed: int
    failed_task_ids: list[UUID]
    # When the oldest event was recorded that is not worked through.
    oldest: datetime | None

    @property
    def pending(self) -> bool:
        return bool(self.not_given or self.unfinished)


@dataclass(frozen=True, slots=True)
class EndedTask:
    """How a task ended that made nothing."""

    task_id: UUID
    status: str
    error_code: str | None
    error_message: str | None
    input: dict[str, Any] | None
    age_s: float | None


@dataclass(frozen=True, slots=True)
class OpenInvalidations:
    """What was said to be invalid of a generation of a dataset, and is not mended yet."""

    dataset_version: UUID
    invalidations: int
    oldest: datetime
    reason: str | None


async def of_generations(tx: Tx, generation_ids: Sequence[UUID]) -> dict[UUID, Staleness]:
    """Costs what is current of their inputs and what is alive; no history."""
    if not generation_ids:
        return {}
    rows = await _sql.rows(
        tx,
        "of_generations",
        Staleness,
        generation_ids=list(generation_ids),
        newest_cursors=NEWEST_CURSORS,
    )
    return {row.generation_id: row for row in rows}


async def fed(tx: Tx) -> list[UUID]:
    """The generations that are routed to, none of whose inputs waits for a rebuild."""
    return [row["generation_id"] for row in await _sql.fed(tx)]


async def tasks(tx: Tx, task_ids: Sequence[UUID]) -> dict[UUID, EndedTask]:
    rows = await _sql.rows(tx, "tasks", EndedTask, task_ids=list(task_ids)) if task_ids else []
    return {row.task_id: row for row in rows}


async def open_invalidations(
    tx: Tx, dataset_versions: Sequence[UUID]
) -> dict[UUID, OpenInvalidations]:
    """By generation of a dataset: what was said to be invalid and is not mended yet."""
    rows = await _sql.rows(
        tx, "open_invalidations", OpenInvalidations, dataset_versions=list(dataset_versions)
    )
    return {row.dataset_version: row for row in rows}
