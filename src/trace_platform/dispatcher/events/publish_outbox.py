"""② and ③ The outbox's side effects: route events, announce tasks. Nothing else causes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from trace_platform.domain.errors import Unavailable
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import QueueSender, source_queue
from trace_platform.state import events, outbox
from trace_platform.state.outbox import Owed

log = structlog.get_logger()

# Long enough for a slow publish; short enough that a crash is hardly noticed.
HIDE_S = 5.0
# A row that cannot be done is looked at again this much later.
POSTPONE_S = 60.0
BUFFER_QUEUE = "buffer"


@dataclass(frozen=True, slots=True)
class Publishing:
    state: Database
    queue: QueueSender
    runtimes: Runtimes
    # Called when tasks were routed that no queue carries.
    others_due: Callable[[], None] = lambda: None

    @property
    def queues(self) -> dict[str, str]:
        """The runtimes whose workers wait at a queue, and which."""
        return {each.name: each.queue for each in self.runtimes if each.enabled and each.queue}

    @property
    def sent(self) -> list[str]:
        return list(self.queues)


async def publish_outbox(services: Publishing, limit: int = 500) -> int:
    """How many rows were dealt with. Safe in several dispatchers at once."""
    routed, announcements = await _route(services, limit)
    queued = [row for row in announcements if row.payload["runtime"] in services.queues]
    if len(queued) < len(announcements):
        services.others_due()
    await _send(services, queued)
    async with services.state.statement() as tx:
        owed = await outbox.claim(tx, limit, HIDE_S, services.sent, sent=True)
    await _send(services, owed)
    return routed + len(owed)


async def _route(services: Publishing, limit: int) -> tuple[int, list[Owed]]:
    try:
        return await _route_some(services, limit)
    except Unavailable:
        raise
    except Exception:
        # One row that cannot be routed must not hold up the others: each alone, then.
        log.exception("route_failed")
    routed, announcements = 0, []
    for _ in range(limit):
        taken, made = await _route_one(services)
        if not taken:
            break
        routed += taken
        announcements += made
    return routed, announcements


async def _route_some(services: Publishing, limit: int) -> tuple[int, list[Owed]]:
    async with services.state.transaction() as tx:
        rows = await outbox.take_routes(tx, limit)
        if not rows:
            return 0, []
        payloads = [row.payload for row in rows]
        return len(rows), await events.route(tx, payloads, services.sent, HIDE_S)


async def _route_one(services: Publishing) -> tuple[int, list[Owed]]:
    """The next row by itself; one that fails again is put off."""
    taken: list[Owed] = []
    try:
        async with services.state.transaction() as tx:
            taken = await outbox.take_routes(tx, 1)
            if not taken:
                return 0, []
            return 1, await events.route(tx, [taken[0].payload], services.sent, HIDE_S)
    except Unavailable:
        raise
    except Exception:
        ids = [row.id for row in taken]
        log.exception("row_cannot_be_routed", outbox_ids=ids)
        async with services.state.statement() as tx:
            # Its events each get a row of their own; what is one already is put off.
            if not await outbox.split_routes(tx, ids):
                await outbox.postpone(tx, ids, POSTPONE_S)
        return 1, []


async def _send(services: Publishing, rows: list[Owed]) -> None:
    if not rows:
        return
    messages: dict[str, list[dict[str, Any]]] = defaultdict(list)
    unclear: list[int] = []
    for row in rows:
        try:
            name, bodies = _messages(services, row)
        except (KeyError, TypeError):
            log.exception("row_cannot_be_sent", outbox_id=row.id)
            unclear.append(row.id)
        else:
            messages[name] += bodies
    for name, bodies in messages.items():
        await services.queue.send(name, bodies)
    # Settled after the send: a crash here repeats a wake-up, never loses one.
    async with services.state.statement() as tx:
        await outbox.settle(tx, [row.id for row in rows if row.id not in unclear])
    if unclear:
        async with services.state.statement() as tx:
            await outbox.postpone(tx, unclear, POSTPONE_S)


def _messages(services: Publishing, row: Owed) -> tuple[str, list[dict[str, Any]]]:
    """To which queue, and what."""
    payload = row.payload
    if row.kind == "buffer":
        return BUFFER_QUEUE, [payload]
    bodies = [{"task_id": task_id} for task_id in payload["task_ids"]]
    queue = services.queues[payload["runtime"]]
    return source_queue(queue) if payload.get("sources") else queue, bodies
