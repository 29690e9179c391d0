"""What somebody should know: a reorg past finality, data that is not the chain's, a chain that
stands still."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from trace_platform.wire.task import Strict

# The worst last.
Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


class Alert(Strict):
    alert_id: UUID
    created_at: datetime
    severity: Severity
    # What kind of thing it is, such as deep_reorg.
    code: str
    dag: str | None
    job: str | None
    dataset_uuid: UUID | None
    message: str
    facts: dict[str, Any]


class AlertList(Strict):
    alerts: list[Alert]
