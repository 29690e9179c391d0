"""Retention: rows of what ended long ago. An identity is remembered as long as its row."""

from __future__ import annotations

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)

# Accesses to personal columns are kept for a year at least, however little else is.
FORGET = (
    "tasks",
    "events",
    "buffers",
    "correlations",
    "invalidations",
    "backfills",
    "workers",
    "queries",
    "pii_access",
    "partitions",
    "checks",
)


async def forget(tx: Tx, what: str, keep_days: float, limit: int) -> int:
    """How many rows of one of `FORGET` went."""
    gone: int = await getattr(_sql, f"forget_{what}")(tx, keep_days=keep_days, limit=limit)
    return gone
