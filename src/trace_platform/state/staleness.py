"""How far generations are behind what their inputs hold now: for people, alerts and repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

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


async def of_generations(tx: Tx, generation_ids: Sequence[UUID]) -> dict[UUID, Staleness]:
    """Costs what is current of their inputs and what is alive; no history."""
    if not generation_ids:
        return {}
    rows = await _sql.of_generations(
        tx, generation_ids=list(generation_ids), newest_cursors=NEWEST_CURSORS
    )
    return {row["generation_id"]: Staleness(**row) for row in rows}


async def fed(tx: Tx) -> list[UUID]:
    """The generations that are routed to, none of whose inputs waits for a rebuild."""
    return [row["generation_id"] for row in await _sql.fed(tx)]


async def tasks(tx: Tx, task_ids: Sequence[UUID]) -> dict[UUID, Row]:
    rows = await _sql.tasks(tx, task_ids=list(task_ids)) if task_ids else []
    return {row["task_id"]: row for row in rows}


async def open_invalidations(tx: Tx, dataset_versions: Sequence[UUID]) -> dict[UUID, Row]:
    """By generation of a dataset: what was said to be invalid and is not mended yet."""
    rows = await _sql.open_invalidations(tx, dataset_versions=list(dataset_versions))
    return {row["dataset_version"]: row for row in rows}
