"""Alerts as the Dispatcher reads them, and what it notes on them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)

# Beyond them nobody counts any more.
MOST_STANDING = 1_000


async def listing(tx: Tx, severities: Sequence[str], limit: int, *, standing: bool) -> list[Row]:
    """The newest first; with `standing` those that are neither acknowledged nor over."""
    rows: list[Row] = await _sql.listing(
        tx, severities=list(severities), limit=limit, standing=standing
    )
    return rows


async def critical_standing(tx: Tx) -> list[Row]:
    """The newest first."""
    rows: list[Row] = await _sql.critical_standing(tx, limit=MOST_STANDING)
    return rows


async def counts(tx: Tx) -> list[Row]:
    """By severity, code, DAG and job: critical ones that stand, and other ones of the last day."""
    rows: list[Row] = await _sql.counts(tx)
    return rows


async def position(tx: Tx) -> str:
    """Another text once something has changed."""
    found: str = await _sql.position(tx)
    return found


async def acknowledge(tx: Tx, alert_ids: Sequence[UUID], by: str, note: str | None) -> set[UUID]:
    """Those that nobody had acknowledged before."""
    rows = await _sql.acknowledge(tx, alert_ids=list(alert_ids), by=by, note=note)
    return {row["id"] for row in rows}


async def by_ids(tx: Tx, alert_ids: Sequence[UUID]) -> list[Row]:
    """As `listing`."""
    rows: list[Row] = await _sql.by_ids(tx, alert_ids=list(alert_ids))
    return rows


async def end_alerts(tx: Tx, alert_ids: Sequence[UUID]) -> int:
    ended: int = await _sql.end_alerts(tx, alert_ids=list(alert_ids))
    return ended


async def forget_alerts(tx: Tx, keep_days: float, limit: int) -> int:
    gone: int = await _sql.forget_alerts(tx, keep_days=keep_days, limit=limit)
    return gone
