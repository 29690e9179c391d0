"""② and ③ The outbox's side effects: route events, announce tasks. Nothing else causes them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import structlog

from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row
from trace_platform.drivers.queue import QueueSender
from trace_platform.state import events, outbox

log = structlog.get_logger()

# Long enough for a slow publish; short enough that a crash is hardly noticed.
HIDE_S = 5.0


async def publish_outbox(state: Database, queue: QueueSender, limit: int = 500) -> int:
    """How many rows were settled. Safe in several dispatchers at once."""
    async with state.transaction() as tx:
        rows = await outbox.claim(tx, limit, HIDE_S)
    await _route(state, [row for row in rows if row["kind"] == "route"])
    await _announce(state, queue, [row for row in rows if row["kind"] == "enqueue"])
    return len(rows)


async def _route(state: Database, rows: list[Row]) -> None:
    for row in rows:
        try:
            async with state.transaction() as tx:
                await events.route(tx, row["payload"]["event_ids"])
                await outbox.settle(tx, [row["id"]])
        except Unavailable:
            raise
        except Exception:
            # One row that cannot be routed must not hold up the others; it stays, hidden a while.
            log.exception("route_failed", outbox_id=row["id"])


async def _announce(state: Database, queue: QueueSender, rows: list[Row]) -> None:
    bodies: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        bodies[row["payload"]["queue"]].append({"task_id": row["payload"]["task_id"]})
    for name, messages in bodies.items():
        await queue.send(name, messages)
    # Settled after the send: a crash here repeats a wake-up, never loses one.
    if rows:
        async with state.transaction() as tx:
            await outbox.settle(tx, [row["id"] for row in rows])
