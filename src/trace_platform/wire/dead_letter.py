"""Messages that a queue gave up to deliver, as people see them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from trace_platform.wire.control import Status
from trace_platform.wire.task import Strict


class DeadLetter(Strict):
    """A message that was received again and again, and never acknowledged."""

    id: int = Field(description="Number of the message.")
    queue: str = Field(description="Name of the queue that it was in.")
    body: dict[str, Any] = Field(description="What the message says.")
    receives: int = Field(description="How many times it was received and not acknowledged.")
    sent_at: datetime = Field(description="When it was sent.")
    died_at: datetime = Field(description="When the queue gave it up.")
    dag_name: str | None = Field(
        default=None,
        description="For a wake-up, name of the DAG of its task; null when there is no such task.",
    )
    job_name: str | None = Field(
        default=None,
        description="For a wake-up, name of the job of its task; null when there is no such task.",
    )
    task_status: Status | None = Field(
        default=None,
        description="For a wake-up, what its task does at the moment; null when there is no "
        "such task.",
    )


class DeadLetterList(Strict):
    dead_letters: list[DeadLetter] = Field(description="The messages, the newest first.")
    total: int = Field(
        description="Number of all dead letters, or of all in the queue that was asked for, "
        "shown or not."
    )


class DeadLetterIds(Strict):
    ids: list[Annotated[int, Field(ge=1, le=2**63 - 1)]] = Field(
        min_length=1, max_length=1_000, description="Numbers of the messages."
    )
