"""Task payloads between Dispatcher and workers: claim, heartbeat, events, complete."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trace_platform.domain.fence import Fence

# Fits a bigint, and so does the length of any range.
BlockNumber = Annotated[int, Field(ge=0, le=2**62)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class JobRef(Strict):
    dag_name: str
    name: str


class DatasetEvent(Strict):
    """One update of one dataset generation: a cursor or a partition."""

    dataset_uuid: UUID
    dataset_version: UUID
    cursor: BlockNumber | None = None
    partition_key: str | None = Field(default=None, max_length=256)
    start: BlockNumber | None = None
    end: BlockNumber | None = None

    @model_validator(mode="after")
    def _one_shape(self) -> DatasetEvent:
        if (self.cursor is None) == (self.partition_key is None):
            raise ValueError("give either cursor, or partition_key with start and end")
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end come together")
        if self.start is not None:
            if self.partition_key != f"{self.start}-{self.end}":
                raise ValueError("partition_key of a block range is START-END, inclusive")
            if self.end is not None and self.end < self.start:
                raise ValueError("end is before start")
        return self


class TaskInput(DatasetEvent):
    """What woke the task, and where that input can be read."""

    input_index: int
    files: list[str] = []


class TaskOutput(Strict):
    """Where this attempt stages one of its job's outputs."""

    output_index: int
    name: str
    dataset_uuid: UUID
    dataset_version: UUID
    prefix: str


class TaskPayload(Strict):
    task_id: UUID
    attempt: int
    job: JobRef
    operator: str
    config: dict[str, Any]
    inputs: list[TaskInput]
    outputs: list[TaskOutput]
    timeout_seconds: float
    heartbeat_timeout_seconds: float


class ClaimRequest(Strict):
    task_id: UUID
    worker_id: str = Field(min_length=1, max_length=256)


class Claimed(Strict):
    status: Literal["Claimed"] = "Claimed"
    attempt: int
    lease_token: UUID
    lease_expires_at: datetime
    capability_token: str
    task: TaskPayload

    @property
    def fence(self) -> Fence:
        return Fence(self.task.task_id, self.attempt, self.lease_token)


class NotClaimed(Strict):
    status: Literal["NotClaimed"] = "NotClaimed"
    reason: Literal["AlreadyRunning", "Completed", "Failed", "Canceled", "NotFound"]


ClaimResponse = Annotated[Claimed | NotClaimed, Field(discriminator="status")]


class Fenced(Strict):
    """The body of every task-scoped call starts with the fence."""

    task_id: UUID
    attempt: int = Field(ge=1, le=2**31 - 1)
    lease_token: UUID

    @property
    def fence(self) -> Fence:
        return Fence(self.task_id, self.attempt, self.lease_token)


class Progress(Strict):
    done: int = Field(ge=0, le=2**53)
    total: int = Field(ge=0, le=2**53)


class HeartbeatRequest(Fenced):
    progress: Progress | None = None


class HeartbeatResponse(Strict):
    lease_expires_at: datetime
    directive: Literal["continue", "cancel"] = "continue"


class OutputCommit(Strict):
    """A staged output that the Dispatcher shall commit with the completion."""

    output_index: int = Field(ge=0, le=1_000)
    dataset_uuid: UUID
    dataset_version: UUID
    location: str = Field(max_length=2_000)
    partition_key: str | None = Field(default=None, max_length=256)
    start: BlockNumber | None = None
    end: BlockNumber | None = None
    cursor: BlockNumber | None = None
    row_count: int = Field(ge=0, le=2**62)


class CompleteRequest(Fenced):
    status: Literal["Completed", "Failed", "Canceled"]
    events: list[DatasetEvent] = Field(default=[], max_length=100_000)
    outputs: list[OutputCommit] = Field(default=[], max_length=1_000)
    error_code: str | None = Field(default=None, max_length=64)
    error_message: str | None = Field(default=None, max_length=20_000)
    retryable: bool = True
    # The worker had to stop, not the work: this attempt does not count.
    interrupted: bool = False


class CompleteResponse(Strict):
    status: Literal["Completed", "Failed", "Canceled"]


class EventsRequest(Fenced):
    events: list[DatasetEvent] = Field(min_length=1, max_length=100_000)


class EventsResponse(Strict):
    accepted: int
