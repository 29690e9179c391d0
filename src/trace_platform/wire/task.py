"""Task payloads between Dispatcher and workers: claim, heartbeat, events, complete."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trace_platform.domain.block_range import MAX_BLOCK
from trace_platform.domain.fence import Fence
from trace_platform.wire.manifest import ManifestColumn

BlockNumber = Annotated[int, Field(ge=0, le=MAX_BLOCK)]
MAX_RETRY_AFTER_S = 86_400.0


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class JobRef(Strict):
    dag_name: str
    name: str


class EventScope(Strict):
    """What an update is about: a cursor, or a partition."""

    cursor: BlockNumber | None = None
    partition_key: str | None = Field(default=None, max_length=256)
    start: BlockNumber | None = None
    end: BlockNumber | None = None

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

    dataset_uuid: UUID
    dataset_version: UUID


class InvalidScope(Strict):
    """The part of a dataset that is not right any more: a partition by its key, or a range."""

    scope: Literal["partition", "row_range"]
    partition_key: str | None = Field(default=None, min_length=1, max_length=256)
    start: BlockNumber | None = None
    end: BlockNumber | None = None
    reason: str = Field(min_length=1, max_length=2_000)

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

    dataset_uuid: UUID
    dataset_version: UUID
    # Made by whoever reports it: the same one twice, also by another attempt, is one invalidation.
    request_id: UUID | None = None


class TaskInput(DatasetEvent):
    """What woke the task, and where that input can be read."""

    input_index: int
    files: list[str] = []
    # Rows that do not match are not this task's: applied where the files are read.
    where: dict[str, Any] | None = None
    # It was read before and is to be again: what was said to be invalid.
    invalidation: UUID | None = None
    # The dataset is a table of Postgres data: its rows from the table's first block on are there,
    # and `files` hold older ones.
    table: bool = False
    # False: it did not wake the task; it is there to be read, in the range of what did.
    trigger: bool = True


class TaskOutput(Strict):
    """Where this attempt stages one of its job's outputs."""

    output_index: int
    name: str
    dataset_uuid: UUID
    dataset_version: UUID
    prefix: str
    # The columns that tell one row from another, of a job that appends: its commit holds the rows
    # of `files`, which are there, and its own.
    append: list[str] | None = None
    files: list[str] = []


class TaskPayload(Strict):
    task_id: UUID
    attempt: int
    org_id: UUID
    job: JobRef
    operator: str
    config: dict[str, Any]
    inputs: list[TaskInput]
    outputs: list[TaskOutput]
    timeout_seconds: float
    heartbeat_timeout_seconds: float
    # Where the lines of this attempt are kept.
    log_uri: str


WorkerId = Annotated[str, Field(min_length=1, max_length=256)]


class ClaimRequest(Strict):
    task_id: UUID
    worker_id: WorkerId


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
    """Held: the job is paused or at its limit; another wake-up comes when there is room."""

    status: Literal["NotClaimed"] = "NotClaimed"
    reason: Literal["AlreadyRunning", "Completed", "Failed", "Canceled", "NotFound", "Held"]


ClaimResponse = Annotated[Claimed | NotClaimed, Field(discriminator="status")]


class ClaimBatchRequest(Strict):
    """A worker with room for so many: which tasks it gets is the Dispatcher's choice."""

    runtime: str = Field(min_length=1, max_length=128)
    worker_id: WorkerId
    max_tasks: int = Field(ge=1, le=1_000)
    # Runs of sources, which have slots of their own, or everything else.
    sources: bool = False


class ClaimBatchResponse(Strict):
    claimed: list[Claimed]


class FetchResponse(Strict):
    """A task as it stands, for a look: no lease comes with it."""

    status: Literal["Queued", "Running", "Completed", "Failed", "Canceled"]
    task: TaskPayload


class Invocation(TaskPayload):
    """What a function is invoked with: everything that it needs to run and to report."""

    lease_token: UUID
    lease_expires_at: datetime
    capability_token: str
    bundle_url: str | None = None


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
    # Of a source: how long ago it heard from the outside; None: never.
    heard_s: float | None = Field(default=None, ge=0)
    # And why it does not get on, since when.
    stuck: str | None = Field(default=None, max_length=2_000)
    stuck_s: float = Field(default=0.0, ge=0)


class HeartbeatRequest(Fenced):
    progress: Progress | None = None


class HeartbeatResponse(Strict):
    """cancel: stop. pause: a source emits nothing until told to continue. drain: a source ends."""

    lease_expires_at: datetime
    directive: Literal["continue", "cancel", "pause", "drain"] = "continue"


class Problem(Strict):
    """One refused item of a batch, as problem+json says it."""

    code: str
    detail: str
    hint: str | None = None


class HeartbeatBatchRequest(Strict):
    """All attempts of one worker; also sent when it has none, to say that it is there."""

    worker_id: WorkerId
    runtime: str = Field(min_length=1, max_length=128)
    slots: int = Field(ge=1, le=100_000)
    source_slots: int = Field(default=0, ge=0, le=100_000)
    beats: list[HeartbeatRequest] = Field(max_length=1_000)


class TakeOverRequest(Strict):
    """A worker that started: what those of its identity held before it has nobody any more."""

    identity: WorkerId
    # How many times a worker of this identity has started, this time included.
    incarnation: int = Field(ge=1, le=10**15 - 1)


class TakeOverResponse(Strict):
    # Attempts that were given up.
    given_up: int


class HeartbeatResult(Strict):
    lease: HeartbeatResponse | None = None
    problem: Problem | None = None


class HeartbeatBatchResponse(Strict):
    """In the order of the request."""

    results: list[HeartbeatResult]


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
    # Of a table: whether its rows were not counted, and its columns; None: as was said before.
    rows_estimated: bool = False
    columns: list[ManifestColumn] | None = Field(default=None, max_length=10_000)


class Span(Strict):
    """Blocks, both included."""

    start: BlockNumber
    end: BlockNumber

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.end < self.start:
            raise ValueError("end is before start")
        return self


class CompleteRequest(Fenced):
    status: Literal["Completed", "Failed", "Canceled"]
    events: list[DatasetEvent] = Field(default=[], max_length=100_000)
    outputs: list[OutputCommit] = Field(default=[], max_length=1_000)
    invalidations: list[Invalidation] = Field(default=[], max_length=10_000)
    # Nothing was done: the range is too large for one task, and these are for several.
    split: list[Span] = Field(default=[], max_length=10_000)
    error_code: str | None = Field(default=None, max_length=64)
    error_message: str | None = Field(default=None, max_length=20_000)
    retryable: bool = True
    # Of a failure that another attempt may mend: not before so long. A node that limits the rate.
    retry_after_s: float = Field(default=0.0, ge=0, le=MAX_RETRY_AFTER_S)
    # The worker had to stop, not the work: this attempt does not count.
    interrupted: bool = False
    # What the work needs is away, a node or Postgres data: this attempt counts only when that has
    # lasted for hours.
    outage: bool = False
    # The attempt's log lies in the object store.
    has_log: bool = False

    @model_validator(mode="after")
    def _split_or_done(self) -> Self:
        done = self.events or self.outputs or self.invalidations
        if self.split and (done or self.status != "Completed"):
            raise ValueError("a task that is split has done nothing itself")
        return self


class CompleteResponse(Strict):
    status: Literal["Completed", "Failed", "Canceled"]


class CompleteBatchRequest(Strict):
    completions: list[CompleteRequest] = Field(max_length=1_000)


class CompleteResult(Strict):
    completion: CompleteResponse | None = None
    problem: Problem | None = None


class CompleteBatchResponse(Strict):
    """In the order of the request."""

    results: list[CompleteResult]


class EventsRequest(Fenced):
    events: list[DatasetEvent] = Field(default=[], max_length=100_000)
    invalidations: list[Invalidation] = Field(default=[], max_length=10_000)
    # Outputs that are tables, and how far they go by now.
    tables: list[OutputCommit] = Field(default=[], max_length=1_000)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.events or self.invalidations or self.tables):
            raise ValueError("give at least one event, invalidation or table")
        return self


class Accepted(Strict):
    """How much of what was sent is new."""

    accepted: int


class BufferPublishRequest(Fenced):
    """A batch that lies in the attempt's scratch space and belongs into a buffered dataset."""

    dataset_uuid: UUID
    dataset_version: UUID
    batch_uri: str = Field(min_length=1, max_length=2_000)
    record_count: int = Field(ge=0, le=2**62)


class BufferPublishResponse(Strict):
    # False when the same batch was published before.
    accepted: bool
