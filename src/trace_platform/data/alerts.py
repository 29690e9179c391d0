"""Alerts: what somebody should know, recorded once however often it is raised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from trace_platform.data.connection import DataConnection
from trace_platform.data.database import DataDatabase
from trace_platform.data.sync_queries import SyncTx, load_sync_queries

_sql = load_sync_queries(__file__)
Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Alert:
    """`dedupe_key` says what makes it the same alert: a second one is not recorded."""

    severity: Severity
    code: str
    message: str
    dedupe_key: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    dataset_uuid: UUID | None = None


def record(database: DataDatabase, alert: Alert) -> bool:
    """Whether it is new."""
    with DataConnection(database, "trace-alerts") as connection, connection.transaction() as tx:
        return record_in(tx, alert, database)


def record_in(tx: SyncTx, alert: Alert, database: DataDatabase) -> bool:
    """As `record`, with whatever else the transaction does."""
    made: int = _sql.record(
        tx,
        severity=alert.severity,
        code=alert.code,
        message=_storable(alert.message),
        dedupe_key=alert.dedupe_key,
        facts=_storable(alert.facts),
        dag=database.dag,
        job=database.job,
        dataset_uuid=alert.dataset_uuid,
    )
    return bool(made)


def _storable(value: Any) -> Any:
    """What a node says may hold a character zero; Postgres has none."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, Mapping):
        return {_storable(key): _storable(each) for key, each in value.items()}
    return [_storable(each) for each in value] if isinstance(value, list | tuple) else value
