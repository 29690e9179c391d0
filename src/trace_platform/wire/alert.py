"""What somebody should know: a reorg past finality, data that is not the chain's, a chain that
stands still."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from pydantic import Field

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
    # Neither acknowledged nor over. What is critical keeps `trace health` firing until then.
    stands: bool
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    acknowledged_note: str | None


class AlertList(Strict):
    alerts: list[Alert]


class AcknowledgeRequest(Strict):
    """That somebody knows of these alerts, and who."""

    alert_ids: list[UUID] = Field(min_length=1, max_length=1_000)
    by: str = Field(min_length=1, max_length=200)
    note: str | None = Field(default=None, min_length=1, max_length=2_000)


class Acknowledged(Strict):
    """The alerts as they are now, and how many of them nobody had acknowledged before."""

    acknowledged: int
    alerts: list[Alert]
