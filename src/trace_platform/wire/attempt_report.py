"""What an attempt says while it runs and when it ends, and what it is answered."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from trace_platform.domain.fence import Fence
from trace_platform.wire.check import CheckReport
from trace_platform.wire.fields import (
    Attempt,
    BlockNumber,
    DatasetUuid,
    DatasetVersionId,
    OutputIndex,
    Strict,
    TaskId,
    WorkerId,
)
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.operator_state import State
from trace_platform.wire.update import DatasetEvent, Invalidation

MAX_RETRY_AFTER_S = 86_400.0


class Fenced(Strict):
    """The body of every task-scoped call starts with the fence."""

    task_id: TaskId
    attempt: Attempt = Field(ge=1, le=2**31 - 1)
    lease_token: UUID = Field(description="Secret of the lease, from the claim.")

    @property
    def fence(self) -> Fence:
        return Fence(self.task_id, self.attempt, self.lease_token)


class Progress(Strict):
    done: int = Field(
        ge=0,
        le=2**53,
        description="How much is done: steps of the work, or the newest block of a source.",
    )
    total: int = Field(
        ge=0,
        le=2**53,
        description="Out of how much: all steps, or the newest block that a source knows of "
        "outside.",
    )
    heard_s: float | None = Field(
        default=None,
        ge=0,
        description="For a source, seconds since it last heard from the outside; null when "
        "it never did.",
    )
    stuck: str | None = Field(
        default=None,
        max_length=2_000,
        description="For a source, why it does not advance; null while it does.",
    )
    stuck_s: float = Field(
        default=0.0,
        ge=0,
        description="For a source that is stuck, seconds since it last advanced; 0 while it "
        "is not.",
    )


class HeartbeatRequest(Fenced):
    progress: Progress | None = Field(
        default=None, description="How far the attempt is; null when it does not say."
    )


class HeartbeatResponse(Strict):
    """The extended lease, and what to do next."""

    lease_expires_at: datetime = Field(
        description="When the lease ends unless another heartbeat extends it."
    )
    directive: Literal["continue", "cancel", "pause", "drain"] = Field(
        default="continue",
        description="What the attempt does next. `cancel`: stop. `pause`: a source emits "
        "nothing until told to continue. `drain`: a source finishes what it has begun and ends.",
    )


class Problem(Strict):
    """One refused item of a batch, as problem+json says it."""

    code: str = Field(description="Stable code of the error, for programs.")
    detail: str = Field(description="What was wrong, in one sentence.")
    hint: str | None = Field(
        default=None, description="What would put it right; null when nothing is known to."
    )


class HeartbeatBatchRequest(Strict):
    """All attempts of one worker; also sent when it has none, to say that it is there."""

    worker_id: WorkerId = Field(description="Name of the worker, its own among all workers.")
    runtime: str = Field(
        min_length=1, max_length=128, description="Name of the runtime whose tasks the worker runs."
    )
    slots: int = Field(
        ge=1, le=100_000, description="Number of tasks that the worker can run at once."
    )
    source_slots: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="Number of runs of sources that the worker can hold at once, beside `slots`.",
    )
    polled_s: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds since the worker last got at its queue, or had no room to look.",
    )
    beats: list[HeartbeatRequest] = Field(
        max_length=1_000,
        description="A heartbeat for every attempt of the worker; empty when it has none.",
    )


class HeartbeatResult(Strict):
    lease: HeartbeatResponse | None = Field(
        default=None, description="The extended lease; null when the heartbeat was refused."
    )
    problem: Problem | None = Field(
        default=None, description="Why the heartbeat was refused; null when it was not."
    )


class HeartbeatBatchResponse(Strict):
    """In the order of the request."""

    results: list[HeartbeatResult] = Field(
        description="One result for each heartbeat, in the order of the request."
    )


class OutputCommit(Strict):
    """A staged output that the Dispatcher shall commit with the completion."""

    output_index: OutputIndex = Field(ge=0, le=1_000)
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    location: str = Field(
        max_length=2_000,
        description="URI of the folder with the staged files and their manifest; for a "
        "table, its name.",
    )
    partition_key: str | None = Field(
        default=None,
        max_length=256,
        description="Key of the partition that is committed. For a block range it is START-END.",
    )
    start: BlockNumber | None = Field(
        default=None,
        description="First block of the partition; null for a partition that is no block range.",
    )
    end: BlockNumber | None = Field(
        default=None,
        description="Last block of the partition, included; null for a partition that is no "
        "block range.",
    )
    cursor: BlockNumber | None = Field(
        default=None, description="For a table, the last block that it holds."
    )
    row_count: int = Field(ge=0, le=2**62, description="Number of rows.")
    rows_estimated: bool = Field(
        default=False, description="For a table, whether the rows were estimated and not counted."
    )
    columns: list[ManifestColumn] | None = Field(
        default=None,
        max_length=10_000,
        description="For a table, its columns; null when they are as they were said before.",
    )


class Span(Strict):
    """Blocks, both included."""

    start: BlockNumber = Field(description="First block of the range.")
    end: BlockNumber = Field(description="Last block of the range, included.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.end < self.start:
            raise ValueError("end is before start")
        return self


class CompleteRequest(Fenced):
    status: Literal["Completed", "Failed", "Canceled"] = Field(description="How the attempt ended.")
    events: list[DatasetEvent] = Field(
        default=[],
        max_length=100_000,
        description="Events of the task's outputs beyond one for each committed output.",
    )
    outputs: list[OutputCommit] = Field(
        default=[],
        max_length=1_000,
        description="The staged outputs to commit together with the completion.",
    )
    invalidations: list[Invalidation] = Field(
        default=[],
        max_length=10_000,
        description="Parts of the task's inputs or outputs that the attempt found to be "
        "wrong, or has rewritten.",
    )
    split: list[Span] = Field(
        default=[],
        max_length=10_000,
        description="Ranges for several tasks in place of this one, which was too large and "
        "has done nothing.",
    )
    error_code: str | None = Field(
        default=None,
        max_length=64,
        description="Stable code of the error, for an attempt that failed.",
    )
    error_message: str | None = Field(
        default=None, max_length=20_000, description="What went wrong, for people."
    )
    retryable: bool = Field(default=True, description="Whether another attempt may succeed.")
    retry_after_s: float = Field(
        default=0.0,
        ge=0,
        le=MAX_RETRY_AFTER_S,
        description="Seconds to wait at least before the next attempt, such as a node's rate "
        "limit asks for.",
    )
    interrupted: bool = Field(
        default=False,
        description="Whether the worker had to stop and not the work. Such an attempt does "
        "not count against `max_attempts`.",
    )
    outage: bool = Field(
        default=False,
        description="Whether something that the work needs is away, such as a node. Such an "
        "attempt counts against `max_attempts` only once the outage has lasted for hours.",
    )
    has_log: bool = Field(
        default=False, description="Whether the attempt's log was written to the object store."
    )

    checks: list[CheckReport] = Field(
        default=[],
        max_length=10_000,
        description="What the checks of the job found in what the attempt staged.",
    )
    state: State = Field(
        default={},
        description="What the operator wants to find again, by key; null forgets a key. Kept "
        "with what is committed, or not at all.",
    )

    @model_validator(mode="after")
    def _split_or_done(self) -> Self:
        done = self.events or self.outputs or self.invalidations
        if self.split and (done or self.status != "Completed"):
            raise ValueError("a task that is split has done nothing itself")
        return self


class CompleteResponse(Strict):
    status: Literal["Completed", "Failed", "Canceled"] = Field(
        description="The task's status once the attempt ended."
    )


class CompleteBatchRequest(Strict):
    completions: list[CompleteRequest] = Field(
        max_length=1_000, description="The attempts that ended, each with its fence."
    )


class CompleteResult(Strict):
    completion: CompleteResponse | None = Field(
        default=None, description="The answer to the completion; null when it was refused."
    )
    problem: Problem | None = Field(
        default=None, description="Why the completion was refused; null when it was not."
    )


class CompleteBatchResponse(Strict):
    """In the order of the request."""

    results: list[CompleteResult] = Field(
        description="One result for each completion, in the order of the request."
    )


class EventsRequest(Fenced):
    events: list[DatasetEvent] = Field(
        default=[], max_length=100_000, description="Events of the task's outputs."
    )
    invalidations: list[Invalidation] = Field(
        default=[],
        max_length=10_000,
        description="Parts of the task's inputs or outputs that the attempt found to be "
        "wrong, or has rewritten.",
    )
    tables: list[OutputCommit] = Field(
        default=[],
        max_length=1_000,
        description="Outputs that are tables, with how far each goes by now.",
    )
    state: State = Field(
        default={},
        description="What the operator wants to find again, by key; null forgets a key. Kept "
        "with the events, or not at all.",
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.events or self.invalidations or self.tables or self.state):
            raise ValueError("give at least one event, invalidation, table or key of the state")
        return self


class Accepted(Strict):
    """How much of what was sent is new."""

    accepted: int = Field(
        description="How many of the given items were new; the others were known and changed "
        "nothing."
    )


class BufferPublishRequest(Fenced):
    """A batch that lies in the attempt's scratch space and belongs into a buffered dataset."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    batch_uri: str = Field(
        min_length=1,
        max_length=2_000,
        description="URI of the batch in the attempt's scratch space.",
    )
    record_count: int = Field(ge=0, le=2**62, description="Number of records in the batch.")


class BufferPublishResponse(Strict):
    accepted: bool = Field(description="False when the same batch was published before.")
