"""Messages that a queue gave up to deliver, as people see them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from trace_platform.wire.control import Status
from trace_platform.wire.task import Strict


class DeadLetter(Strict):
    """A message that was received again and again, and never acknowledged."""

    id: int
    queue: str
    body: dict[str, Any]
    receives: int
    sent_at: datetime
    died_at: datetime
    # Of a wake-up: the job of its task, and how that is now; None when there is no such task.
    dag_name: str | None = None
    job_name: str | None = None
    task_status: Status | None = None


class DeadLetterList(Strict):
    dead_letters: list[DeadLetter]
    # How many there are, of that queue if one was asked for, shown or not.
    total: int


class DeadLetterIds(Strict):
    ids: list[Annotated[int, Field(ge=1, le=2**63 - 1)]] = Field(min_length=1, max_length=1_000)
