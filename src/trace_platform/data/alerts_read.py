"""Alerts as the Dispatcher reads them."""

from __future__ import annotations

from collections.abc import Sequence

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


async def listing(tx: Tx, severities: Sequence[str], limit: int) -> list[Row]:
    """The newest first."""
    rows: list[Row] = await _sql.listing(tx, severities=list(severities), limit=limit)
    return rows


async def recent_counts(tx: Tx) -> list[Row]:
    """By severity, code, DAG and job: of the last day, without incidents that have ended."""
    rows: list[Row] = await _sql.recent_counts(tx)
    return rows
