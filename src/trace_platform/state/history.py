"""Retention: rows of what ended long ago. An identity is remembered as long as its row."""

from __future__ import annotations

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


async def forget_tasks(tx: Tx, keep_days: float, limit: int) -> int:
    gone: int = await _sql.forget_tasks(tx, keep_days=keep_days, limit=limit)
    return gone


async def forget_events(tx: Tx, keep_days: float, limit: int) -> int:
    gone: int = await _sql.forget_events(tx, keep_days=keep_days, limit=limit)
    return gone


async def forget_buffers(tx: Tx, keep_days: float, limit: int) -> int:
    gone: int = await _sql.forget_buffers(tx, keep_days=keep_days, limit=limit)
    return gone


async def forget_correlations(tx: Tx, keep_days: float, limit: int) -> int:
    gone: int = await _sql.forget_correlations(tx, keep_days=keep_days, limit=limit)
    return gone


async def forget_invalidations(tx: Tx, keep_days: float, limit: int) -> int:
    gone: int = await _sql.forget_invalidations(tx, keep_days=keep_days, limit=limit)
    return gone


async def forget_backfills(tx: Tx, keep_days: float, limit: int) -> int:
    gone: int = await _sql.forget_backfills(tx, keep_days=keep_days, limit=limit)
    return gone


async def forget_workers(tx: Tx, keep_days: float, limit: int) -> int:
    gone: int = await _sql.forget_workers(tx)
    return gone


async def forget_queries(tx: Tx, keep_days: float, limit: int) -> int:
    gone: int = await _sql.forget_queries(tx, keep_days=keep_days, limit=limit)
    return gone


async def forget_pii_access(tx: Tx, keep_days: float, limit: int) -> int:
    """Never before a year, however little else is kept."""
    gone: int = await _sql.forget_pii_access(tx, keep_days=keep_days, limit=limit)
    return gone
