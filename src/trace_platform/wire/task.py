"""Task payloads between Dispatcher and workers, all under this name: what there is to do and who
claims it are here, what is said of datasets in update.py, what attempts say in
attempt_report.py."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from trace_platform.domain.fence import Fence
from trace_platform.wire.abi import TaskAbi
from trace_platform.wire.attempt_report import (
    MAX_RETRY_AFTER_S,
    Accepted,
    BufferPublishRequest,
    BufferPublishResponse,
    CompleteBatchRequest,
    CompleteBatchResponse,
    CompleteRequest,
    CompleteResponse,
    CompleteResult,
    EventsRequest,
    Fenced,
    HeartbeatBatchRequest,
    HeartbeatBatchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    HeartbeatResult,
    OutputCommit,
    Problem,
    Progress,
    Span,
)
from trace_platform.wire.check_spec import Check
from trace_platform.wire.fields import (
    Attempt,
    BlockNumber,
    DagName,
    DatasetUuid,
    DatasetVersionId,
    JobName,
    OutputIndex,
    Strict,
    TaskId,
    WorkerId,
)
from trace_platform.wire.update import DatasetEvent, EventScope, Invalidation, InvalidScope

__all__ = [
    "MAX_RETRY_AFTER_S",
    "Accepted",
    "BlockNumber",
    "BufferPublishRequest",
    "BufferPublishResponse",
    "ClaimBatchRequest",
    "ClaimBatchResponse",
    "ClaimRequest",
    "ClaimResponse",
    "Claimed",
    "CompleteBatchRequest",
    "CompleteBatchResponse",
    "CompleteRequest",
    "CompleteResponse",
    "CompleteResult",
    "DatasetEvent",
    "EventScope",
    "EventsRequest",
    "Fenced",
    "FetchResponse",
    "HeartbeatBatchRequest",
    "HeartbeatBatchResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "HeartbeatResult",
    "InvalidScope",
    "Invalidation",
    "Invocation",
    "JobRef",
    "NotClaimed",
    "OutputCommit",
    "Problem",
    "Progress",
    "Span",
    "Strict",
    "TakeOverRequest",
    "TakeOverResponse",
    "TaskInput",
    "TaskOutput",
    "TaskPayload",
    "WorkerId",
]


class JobRef(Strict):
    dag_name: DagName
    name: JobName


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
    whole: bool = Field(
        default=False,
        description="Whether all of the dataset is there to be read, whatever of it woke the task.",
    )
    columns_of: str | None = Field(
        default=None,
        description="URI of a file of another part of the dataset, which has its columns, where a "
        "transform has no files to read in its own part.",
    )
    names: list[str] = Field(
        default=[],
        description="What a transform may call the input besides `input_0`.",
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
        description="For a job that appends, and where partitions of a fold become one, URIs of "
        "the files that are committed already in the task's range.",
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
    checks: list[Check] = Field(
        default=[], description="What must hold of the rows that the attempt writes."
    )
    abis: list[TaskAbi] = Field(
        default=[], description="The stored ABIs that the attempt decodes by."
    )


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
