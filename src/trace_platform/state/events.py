"""Dataset events: recorded once per identity, routed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)

# Of an open task; more wait for the next one.
MAX_INPUTS = 1_000


async def record(tx: Tx, events: list[dict[str, Any]]) -> int:
    """How many of these are new. The identity is dataset, generation and cursor or partition,
    and for a partition that was committed, its materialisation."""
    new: int = await _sql.record_events(tx, events=Jsonb(events))
    return new


async def route(
    tx: Tx, routes: Sequence[dict[str, Any]], sent_at_once: Sequence[str], hide_s: float
) -> list[Row]:
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
    rows: list[Row] = await _sql.route_events(
        tx,
        event_ids=fresh,
        owed_ids=owed_ids,
        owed_to=[generation_id for _, generation_id, _ in owed],
        again=[again for _, _, again in owed],
        sent_at_once=list(sent_at_once),
        hide_s=hide_s,
        max_inputs=MAX_INPUTS,
    )
    return rows


async def known_generation(tx: Tx, org_id: UUID, dataset_uuid: UUID, version: UUID) -> bool:
    found = await _sql.known_generation(
        tx, org_id=org_id, dataset_uuid=dataset_uuid, dataset_version=version
    )
    return bool(found)


async def listing(tx: Tx, org_id: UUID, dataset_uuid: UUID | None, limit: int) -> list[Row]:
    rows: list[Row] = await _sql.list_events(
        tx, org_id=org_id, dataset_uuid=dataset_uuid, limit=limit
    )
    return rows
