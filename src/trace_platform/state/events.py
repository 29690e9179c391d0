"""Dataset events: recorded once per identity, routed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state.outbox import Owed

_sql = load_queries(__file__)

# Of an open task; more wait for the next one.
MAX_INPUTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An update of a dataset that is to be recorded: of a cursor, or of a partition."""

    org_id: UUID
    dataset_uuid: UUID
    dataset_version: UUID
    cursor: int | None = None
    partition_key: str | None = None
    start: int | None = None
    end: int | None = None
    # What was committed; None for what is only said to be there.
    materialisation: UUID | None = None
    # The attempt that emitted it, and the priority that follows from its own.
    task_id: UUID | None = None
    attempt: int | None = None
    priority: int | None = None
    invalidation: UUID | None = None
    # Recorded once more for each of these, although its partition is on record.
    repeat: UUID | None = None
    # Whether something gave way to it; None: as follows from the rest.
    replaces: bool | None = None


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """An event as lists show it."""

    event_id: int
    dataset_uuid: UUID
    dataset_name: str | None
    dag_name: str
    job_name: str
    output_index: int
    dataset_version: UUID
    cursor: int | None
    partition_key: str | None
    start: int | None
    end: int | None
    producer_task_id: UUID | None
    producer_attempt: int | None
    recorded_at: datetime
    routed_at: datetime | None
    current: bool


async def record(tx: Tx, events: Sequence[NewEvent]) -> int:
    """How many of these are new. The identity is dataset, generation and cursor or partition,
    and for a partition that was committed, its materialisation."""
    new: int = await _sql.record_events(tx, events=Jsonb(events, dumps=msgspec.json.encode))
    return new


async def route(
    tx: Tx, routes: Sequence[dict[str, Any]], sent_at_once: Sequence[str], hide_s: float
) -> list[Owed]:
    """The outbox rows that announce what the events of these payloads created. Those of the
    runtimes that the caller sends at once are hidden from others meanwhile."""
    fresh = [e for route in routes if "generation_id" not in route for e in route["event_ids"]]
    owed = [
        (event_id, route["generation_id"], route.get("again"))
        for route in routes
        if "generation_id" in route
        for event_id in route["event_ids"]
    ]
    owed_ids = [event_id for event_id, _, _ in owed]
    await _sql.close_full_tasks(tx, event_ids=fresh + owed_ids, max_inputs=MAX_INPUTS)
    return await _sql.rows(
        tx,
        "route_events",
        Owed,
        event_ids=fresh,
        owed_ids=owed_ids,
        owed_to=[generation_id for _, generation_id, _ in owed],
        again=[again for _, _, again in owed],
        sent_at_once=list(sent_at_once),
        hide_s=hide_s,
        max_inputs=MAX_INPUTS,
    )


async def known_generation(tx: Tx, org_id: UUID, dataset_uuid: UUID, version: UUID) -> bool:
    found = await _sql.known_generation(
        tx, org_id=org_id, dataset_uuid=dataset_uuid, dataset_version=version
    )
    return bool(found)


async def listing(tx: Tx, org_id: UUID, dataset_uuid: UUID | None, limit: int) -> list[ListedEvent]:
    return await _sql.rows(
        tx, "list_events", ListedEvent, org_id=org_id, dataset_uuid=dataset_uuid, limit=limit
    )
