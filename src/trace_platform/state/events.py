"""Dataset events: recorded once per identity, routed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


async def record(
    tx: Tx,
    org_id: UUID,
    events: list[dict[str, Any]],
    producer: tuple[UUID, int] | None = None,
) -> int:
    """How many of these are new. The identity is dataset, generation and cursor or partition,
    and for a partition that was committed, its materialisation."""
    task_id, attempt = producer or (None, None)
    new: int = await _sql.record_events(
        tx, org_id=org_id, events=Jsonb(events), producer_task_id=task_id, producer_attempt=attempt
    )
    return new


async def route(tx: Tx, event_ids: Sequence[int]) -> list[UUID]:
    """The tasks that these events created; their announcements are in the outbox."""
    rows = await _sql.route_events(tx, event_ids=list(event_ids))
    return [row["id"] for row in rows]
