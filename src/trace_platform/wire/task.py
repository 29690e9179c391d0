"""Task payloads between Dispatcher and workers: claim, heartbeat, events, complete."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trace_platform.domain.block_range import MAX_BLOCK
from trace_platform.domain.fence import Fence
from trace_platform.wire.fields import (
    Attempt,
    DagName,
    DatasetUuid,
    DatasetVersionId,
    JobName,
    OutputIndex,
    TaskId,
)
from trace_platform.wire.manifest import ManifestColumn

BlockNumber = Annotated[int, Field(ge=0, le=MAX_BLOCK)]
MAX_RETRY_AFTER_S = 86_400.0


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class JobRef(Strict):
    dag_name: DagName
    name: JobName


class EventScope(Strict):
    """What an update is about: a cursor, or a partition."""

    cursor: BlockNumber | None = Field(
        default=None,
        description="Block number or tick that the dataset reached. Given alone, without a "
        "partition.",
    )
    partition_key: str | None = Field(
        default=None,
        max_length=256,
        description="Key of the partition that changed. For a block range it is START-END.",
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

    @model_validator(mode="after")
    def _one_shape(self) -> Self:
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


class DatasetEvent(EventScope):
    """One update of one dataset generation."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId


class InvalidScope(Strict):
    """The part of a dataset that is not right any more: a partition by its key, or a range."""

    scope: Literal["partition", "row_range"] = Field(
        description="Whether a partition is wrong, named by its key, or a range of blocks."
    )
    partition_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="Key of the partition that is wrong. For a block range it is START-END.",
    )
    start: BlockNumber | None = Field(
        default=None, description="First block that is wrong; needed for a `row_range`."
    )
    end: BlockNumber | None = Field(
        default=None, description="Last block that is wrong, included; needed for a `row_range`."
    )
    reason: str = Field(
        min_length=1,
        max_length=2_000,
        description="Why it is wrong, in words for the people who look into it later.",
    )

    @model_validator(mode="after")
    def _one_part(self) -> Self:
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end come together")
        if self.start is not None and self.end is not None and self.end < self.start:
            raise ValueError("end is before start")
        if self.scope == "row_range" and self.start is None:
            raise ValueError("a row_range has start and end")
        if self.scope == "partition" and self.partition_key is None:
            raise ValueError("a partition has a partition_key")
        ranged = f"{self.start}-{self.end}"
        if None not in (self.start, self.partition_key) and self.partition_key != ranged:
            raise ValueError("partition_key of a block range is START-END, inclusive")
        return self


class Invalidation(InvalidScope):
    """Of an attempt's output: it was rewritten. Of an input: it is wrong and must be made anew."""

    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    request_id: UUID | None = Field(
        default=None,
        description="Id that the reporter chooses. The same id twice, also from another "
        "attempt, is one invalidation.",
    )


class TaskInput(DatasetEvent):
    """What woke the task, and where that input can be read."""

    input_index: int = Field(description="Position of the input in the job's `inputs`, from 0.")
    files: list[str] = Field(
        default=[], description="URIs of the Parquet files that hold this input."
    )
    where: dict[str, Any] | None = Field(
        default=None,
        description="Conditions on columns, which the operator applies as it reads; null "
        "means all rows.",
    )
    invalidation: UUID | None = Field(
        default=None,
        description="Id of the invalidation because of which the input is read once more; "
        "null for a first read.",
    )
    table: bool = Field(
        default=False,
        description="Whether the dataset is a table of Postgres data. Rows from the table's "
        "first block on are in the table, and `files` hold older ones.",
    )
    trigger: bool = Field(
        default=True,
        description="Whether the input woke the task. False: it is only read, in the range "
        "of what woke the task.",
    )


class TaskOutput(Strict):
    """Where this attempt stages one of its job's outputs."""

    output_index: OutputIndex
    name: str = Field(description="Name of the output in the job's `outputs`.")
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    prefix: str = Field(
        description="URI under which this attempt, and no other, stages the output's files."
    )
    append: list[str] | None = Field(
        default=None,
        description="For a job that appends, the columns that tell one row from another. The "
        "commit has to hold the rows of `files` and the new ones. Null for a job that replaces.",
    )
    files: list[str] = Field(
        default=[],
        description="For a job that appends, URIs of the files that are committed already in "
        "the task's range.",
    )


class TaskPayload(Strict):
    task_id: TaskId
    attempt: Attempt
    org_id: UUID = Field(description="Id of the organisation that owns the DAG.")
    job: JobRef = Field(description="The job that the task belongs to.")
    operator: str = Field(
        description="Name of the operator that does the work, or FILE.py:CLASS with a digest "
        "for code beside the DAG."
    )
    config: dict[str, Any] = Field(
        description="The operator's own configuration, as the DAG gives it."
    )
    inputs: list[TaskInput] = Field(description="What woke the task, and what it reads.")
    outputs: list[TaskOutput] = Field(
        description="Where the attempt stages each output of the job."
    )
    timeout_seconds: float = Field(description="Seconds after which the attempt is stopped.")
    heartbeat_timeout_seconds: float = Field(
        description="Length of the lease in seconds. An attempt without a heartbeat for so "
        "long is given to another worker."
    )
    log_uri: str = Field(
        description="URI of the object that the attempt's log lines are written to."
    )


WorkerId = Annotated[str, Field(min_length=1, max_length=256)]


class ClaimRequest(Strict):
    task_id: TaskId
    worker_id: WorkerId = Field(
        description="Name of the worker that claims, its own among all workers."
    )


class Claimed(Strict):
    status: Literal["Claimed"] = Field(
        default="Claimed", description="The worker holds the task now."
    )
    attempt: Attempt
    lease_token: UUID = Field(
        description="Secret of this lease. Every later call for the attempt carries it."
    )
    lease_expires_at: datetime = Field(
        description="When the lease ends unless a heartbeat extends it."
    )
    capability_token: str = Field(
        description="Signed token of this attempt (JWT), which opens the routes under `/v1/task/*`."
    )
    task: TaskPayload = Field(description="What there is to do.")

    @property
    def fence(self) -> Fence:
        return Fence(self.task.task_id, self.attempt, self.lease_token)


class NotClaimed(Strict):
    """Held: the job is paused or at its limit; another wake-up comes when there is room."""

    status: Literal["NotClaimed"] = Field(
        default="NotClaimed", description="The worker holds nothing."
    )
    reason: Literal["AlreadyRunning", "Completed", "Failed", "Canceled", "NotFound", "Held"] = (
        Field(description="Why the task cannot be claimed.")
    )


ClaimResponse = Annotated[Claimed | NotClaimed, Field(discriminator="status")]


class ClaimBatchRequest(Strict):
    """A worker with room for so many: which tasks it gets is the Dispatcher's choice."""

    runtime: str = Field(
        min_length=1, max_length=128, description="Name of the runtime whose tasks the worker runs."
    )
    worker_id: WorkerId = Field(
        description="Name of the worker that claims, its own among all workers."
    )
    max_tasks: int = Field(
        ge=1, le=1_000, description="Number of tasks that the worker has room for."
    )
    sources: bool = Field(
        default=False,
        description="Whether runs of sources are claimed, which have slots of their own, or "
        "all other tasks.",
    )


class ClaimBatchResponse(Strict):
    claimed: list[Claimed] = Field(
        description="The tasks that the worker holds now, each with its lease."
    )


class FetchResponse(Strict):
    """A task as it stands, for a look: no lease comes with it."""

    status: Literal["Queued", "Running", "Completed", "Failed", "Canceled"] = Field(
        description="What the task does at the moment."
    )
    task: TaskPayload = Field(description="What there is to do, without what only a claim gives.")


class Invocation(TaskPayload):
    """What a function is invoked with: everything that it needs to run and to report."""

    lease_token: UUID = Field(
        description="Secret of this lease. Every call of the function carries it."
    )
    lease_expires_at: datetime = Field(
        description="When the lease ends unless a heartbeat extends it."
    )
    capability_token: str = Field(
        description="Signed token of this attempt (JWT), which opens the routes under `/v1/task/*`."
    )
    bundle_url: str | None = Field(
        default=None, description="Where the code to run is fetched; null when the function has it."
    )


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
        description="For a source, seconds since it last advanced, counted while it is stuck.",
    )


class HeartbeatRequest(Fenced):
    progress: Progress | None = Field(
        default=None, description="How far the attempt is; null when it does not say."
    )


class HeartbeatResponse(Strict):
    """cancel: stop. pause: a source emits nothing until told to continue. drain: a source ends."""

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
    beats: list[HeartbeatRequest] = Field(
        max_length=1_000,
        description="A heartbeat for every attempt of the worker; empty when it has none.",
    )


class TakeOverRequest(Strict):
    """A worker that started: what those of its identity held before it has nobody any more."""

    identity: WorkerId = Field(
        description="Name of the worker that stays the same when it is started again."
    )
    incarnation: int = Field(
        ge=1,
        le=10**15 - 1,
        description="How many times a worker of this identity has started, this time included.",
    )


class TakeOverResponse(Strict):
    given_up: int = Field(
        description="Number of attempts of earlier starts that were given up, so that their "
        "tasks can be claimed again."
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

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.events or self.invalidations or self.tables):
            raise ValueError("give at least one event, invalidation or table")
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
