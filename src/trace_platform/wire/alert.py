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
    alert_id: UUID = Field(description="Id of the alert.")
    created_at: datetime = Field(description="When it was raised.")
    severity: Severity = Field(description="How bad it is.")
    code: str = Field(description="Kind of alert, such as deep_reorg.")
    dag: str | None = Field(
        description="Name of the DAG that it is about; null when it is about none."
    )
    job: str | None = Field(description="Name of the job that raised it; null when none did.")
    dataset_uuid: UUID | None = Field(
        description="Id of the dataset that it is about; null when it is about none."
    )
    message: str = Field(description="What happened, in one sentence.")
    facts: dict[str, Any] = Field(description="Figures and names that belong to it, by name.")
    stands: bool = Field(
        description="Whether it is neither acknowledged nor over. A critical alert that "
        "stands keeps the health rule `alerts` firing."
    )
    acknowledged_at: datetime | None = Field(
        description="When somebody acknowledged it; null until then."
    )
    acknowledged_by: str | None = Field(description="Who acknowledged it; null until then.")
    acknowledged_note: str | None = Field(
        description="What that person said about it; null when nothing."
    )


class AlertList(Strict):
    alerts: list[Alert] = Field(description="The alerts, the newest first.")


class AcknowledgeRequest(Strict):
    """That somebody knows of these alerts, and who."""

    alert_ids: list[UUID] = Field(min_length=1, max_length=1_000, description="Ids of the alerts.")
    by: str = Field(min_length=1, max_length=200, description="Who knows of them.")
    note: str | None = Field(
        default=None, min_length=1, max_length=2_000, description="What there is to say about them."
    )


class Acknowledged(Strict):
    """The alerts as they are now, and how many of them nobody had acknowledged before."""

    acknowledged: int = Field(
        description="Number of the alerts that nobody had acknowledged before."
    )
    alerts: list[Alert] = Field(description="The alerts as they are now.")
