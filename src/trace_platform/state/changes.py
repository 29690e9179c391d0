"""What there is now, for whoever compares it with what there was."""

from __future__ import annotations

from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)

# By kind: each thing with a text that is another one once it has changed.
There = dict[str, dict[str, str]]


async def all_but_queues(tx: Tx, org_id: UUID) -> There:
    return {row["kind"]: row["there"] for row in await _sql.all_but_queues(tx, org_id=org_id)}


async def queues(tx: Tx, org_id: UUID) -> There:
    """How long they are: all that waits is counted."""
    return {row["kind"]: row["there"] for row in await _sql.queues(tx, org_id=org_id)}
