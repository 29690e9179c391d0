"""Alerts as the Dispatcher reads them, and what it notes on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)

# Beyond them nobody counts any more.
MOST_STANDING = 1_000


@dataclass(frozen=True, slots=True)
class ListedAlert:
    alert_id: UUID
    created_at: datetime
    severity: str
    code: str
    dag: str | None
    job: str | None
    dataset_uuid: UUID | None
    message: str
    facts: dict[str, Any]
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    acknowledged_note: str | None
    is_over: bool


@dataclass(frozen=True, slots=True)
class StandingAlert:
    """A critical one that nobody has acknowledged and that is not over."""

    alert_id: UUID
    severity: str
    code: str
    dag: str | None
    job: str | None
    dataset_uuid: UUID | None
    message: str
    facts: dict[str, Any]
    age_s: float


@dataclass(frozen=True, slots=True)
class AlertCount:
    severity: str
    code: str
    dag: str
    job: str
    n: int


async def listing(
    tx: Tx, severities: Sequence[str], limit: int, *, standing: bool
) -> list[ListedAlert]:
    """The newest first; with `standing` those that are neither acknowledged nor over."""
    return await _sql.rows(
        tx, "listing", ListedAlert, severities=list(severities), limit=limit, standing=standing
    )


async def critical_standing(tx: Tx) -> list[StandingAlert]:
    """The newest first."""
    return await _sql.rows(tx, "critical_standing", StandingAlert, limit=MOST_STANDING)


async def counts(tx: Tx) -> list[AlertCount]:
    """By severity, code, DAG and job: critical ones that stand, and other ones of the last day."""
    return await _sql.rows(tx, "counts", AlertCount)


async def position(tx: Tx) -> str:
    """Another text once something has changed."""
    found: str = await _sql.position(tx)
    return found


async def acknowledge(tx: Tx, alert_ids: Sequence[UUID], by: str, note: str | None) -> set[UUID]:
    """Those that nobody had acknowledged before."""
    rows = await _sql.acknowledge(tx, alert_ids=list(alert_ids), by=by, note=note)
    return {row["id"] for row in rows}


async def by_ids(tx: Tx, alert_ids: Sequence[UUID]) -> list[ListedAlert]:
    """As `listing`."""
    return await _sql.rows(tx, "by_ids", ListedAlert, alert_ids=list(alert_ids))


async def end_alerts(tx: Tx, alert_ids: Sequence[UUID]) -> int:
    ended: int = await _sql.end_alerts(tx, alert_ids=list(alert_ids))
    return ended


async def forget_alerts(tx: Tx, keep_days: float, limit: int) -> int:
    gone: int = await _sql.forget_alerts(tx, keep_days=keep_days, limit=limit)
    return gone
