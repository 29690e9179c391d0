"""Backfills: what one would do, how far it is, and what is left of it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from trace_platform.wire.fields import DagName, JobName, TaskId
from trace_platform.wire.plan import Amount
from trace_platform.wire.task import BlockNumber, Strict

MAX_IN_FLIGHT = 50


class BackfillRange(Strict):
    dag_name: DagName = Field(min_length=1, max_length=128)
    job_name: JobName = Field(min_length=1, max_length=128)
    start: BlockNumber = Field(description="First block of the range.")
    end: BlockNumber = Field(description="Last block of the range, included.")
    force: bool = Field(default=False, description="Whether to do again also what is up to date.")

    @model_validator(mode="after")
    def _some_blocks(self) -> Self:
        if self.end < self.start:
            raise ValueError("end is before start")
        return self


class BackfillRequest(BackfillRange):
    max_in_flight: int = Field(
        default=MAX_IN_FLIGHT,
        ge=1,
        le=10_000,
        description="Tasks of the backfill that have not ended, at most.",
    )
    request_id: UUID | None = Field(
        default=None, description="Id that the caller chooses. The same id twice is one backfill."
    )


class Gap(Strict):
    """Blocks that no input holds: somebody upstream has to make them first."""

    start: int = Field(description="First block that is missing.")
    end: int = Field(description="Last block that is missing, included.")


class Upstream(Strict):
    """A job that makes an input, and the command that has it make more."""

    job: str = Field(description="The job that makes an input, as DAG.JOB.")
    command: str | None = Field(
        description="The command that makes the job make more; null when it makes its data "
        "by itself."
    )


class BackfillPlan(Strict):
    dag_name: DagName
    job_name: JobName
    start: int = Field(description="First block of the range.")
    end: int = Field(description="Last block of the range, included.")
    force: bool = Field(description="Whether to do again also what is up to date.")
    inputs: int = Field(description="Number of updates of the inputs that hold some of the range.")
    up_to_date: int = Field(
        description="How many of them were done and are still right. They are skipped unless "
        "forced."
    )
    under_way: int = Field(
        description="How many of them have a task that has not ended. They are skipped."
    )
    due: int = Field(description="How many of them are left to do.")
    tasks: int = Field(description="Number of tasks that would be made for them.")
    amount: Amount = Field(
        description="The data of what is due; its seconds are those of one task at a time."
    )
    slots: int = Field(
        description="Number of tasks that can run at once, as far as workers have said."
    )
    gaps: list[Gap] = Field(
        description="Blocks that no input holds. Jobs upstream have to make them first."
    )
    upstream: list[Upstream] = Field(description="The jobs that could make them.")


class FailedTask(Strict):
    task_id: TaskId
    scope: str = Field(description="The range or partition that the task works on.")
    status: Literal["Failed", "Canceled"] = Field(
        description="Whether the task failed for good or was canceled."
    )
    error_code: str | None = Field(
        description="Stable code of the error; null when there was none."
    )
    error_message: str | None = Field(
        description="What went wrong, for people; null when nothing did."
    )


class BackfillStatus(Strict):
    """Running, with pauses, until all its tasks ended. Completed may have some in `failed`."""

    backfill_id: UUID = Field(description="Id of the backfill.")
    dag_name: DagName
    job_name: JobName
    start: int = Field(description="First block of the range.")
    end: int = Field(description="Last block of the range, included.")
    force: bool = Field(description="Whether it does again also what is up to date.")
    status: Literal["Running", "Paused", "Completed", "Canceled"] = Field(
        description="What the backfill does. It is Completed once all of its tasks ended, "
        "also when some of them failed."
    )
    max_in_flight: int = Field(description="Tasks of the backfill that have not ended, at most.")
    done: int = Field(description="Number of tasks that completed.")
    failed: int = Field(description="Number of tasks that failed for good.")
    canceled: int = Field(description="Number of tasks that were canceled.")
    in_flight: int = Field(description="Number of tasks that have not ended.")
    total: int = Field(description="Number of tasks that there will be in all.")
    created_at: datetime = Field(description="When the backfill was started.")
    ended_at: datetime | None = Field(description="When it ended; null while it has not.")
    ended_because: str | None = Field(
        description="Why it ended before all was done; null when it did not."
    )


class BackfillDetail(BackfillStatus):
    failed_tasks: list[FailedTask] = Field(
        description="The first of the tasks that failed or were canceled. Retry them once "
        "the cause is mended."
    )


class BackfillStarted(Strict):
    backfill: BackfillStatus | None = Field(
        description="The backfill; null when there is nothing to do."
    )
    new: bool = Field(description="False when the same request was made before.")


class BackfillList(Strict):
    backfills: list[BackfillStatus] = Field(description="The backfills, the newest first.")


class BackfillAction(Strict):
    changed: bool = Field(description="Whether the call changed something.")
    backfill: BackfillStatus = Field(description="The backfill as it is now.")
