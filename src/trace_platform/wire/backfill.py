"""Backfills: what one would do, how far it is, and what is left of it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from trace_platform.wire.plan import Amount
from trace_platform.wire.task import BlockNumber, Strict

MAX_IN_FLIGHT = 50


class BackfillRange(Strict):
    dag_name: str = Field(min_length=1, max_length=128)
    job_name: str = Field(min_length=1, max_length=128)
    start: BlockNumber
    end: BlockNumber
    # Also what is up to date.
    force: bool = False

    @model_validator(mode="after")
    def _some_blocks(self) -> Self:
        if self.end < self.start:
            raise ValueError("end is before start")
        return self


class BackfillRequest(BackfillRange):
    # Its tasks that have not ended, at most.
    max_in_flight: int = Field(default=MAX_IN_FLIGHT, ge=1, le=10_000)
    # Made by the client: the same one twice is one backfill.
    request_id: UUID | None = None


class Gap(Strict):
    """Blocks that no input holds: somebody upstream has to make them first."""

    start: int
    end: int


class Upstream(Strict):
    """A job that makes an input, and the command that has it make more."""

    job: str
    # None when it makes its data by itself.
    command: str | None


class BackfillPlan(Strict):
    dag_name: str
    job_name: str
    start: int
    end: int
    force: bool
    # Inputs that hold some of the range.
    inputs: int
    # Of these: done before and still right, and on their way. Skipped unless forced.
    up_to_date: int
    under_way: int
    # What runs: inputs that are left, and the tasks for them.
    due: int
    tasks: int
    # Of the inputs that are due; the time as if one task ran at once.
    amount: Amount
    # Tasks that can run at once, as far as workers say.
    slots: int
    gaps: list[Gap]
    upstream: list[Upstream]


class FailedTask(Strict):
    task_id: UUID
    scope: str
    status: Literal["Failed", "Canceled"]
    error_code: str | None
    error_message: str | None


class BackfillStatus(Strict):
    """Running, with pauses, until all its tasks ended. Completed may have some in `failed`."""

    backfill_id: UUID
    dag_name: str
    job_name: str
    start: int
    end: int
    force: bool
    status: Literal["Running", "Paused", "Completed", "Canceled"]
    max_in_flight: int
    # Tasks: those that completed, failed for good, were canceled, have not ended, and all there
    # will be.
    done: int
    failed: int
    canceled: int
    in_flight: int
    total: int
    created_at: datetime
    ended_at: datetime | None
    ended_because: str | None


class BackfillDetail(BackfillStatus):
    # The first of them: a retry of each is up to whoever mended the cause.
    failed_tasks: list[FailedTask]


class BackfillStarted(Strict):
    # None when there is nothing to do.
    backfill: BackfillStatus | None
    # False when the same request was made before.
    new: bool


class BackfillList(Strict):
    backfills: list[BackfillStatus]


class BackfillAction(Strict):
    # Whether this changed something.
    changed: bool
    backfill: BackfillStatus
