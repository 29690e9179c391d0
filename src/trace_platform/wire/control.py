"""The user's control API, all under this name: deploy, trigger and look are here, tasks in
task_status.py, queues and holds in queues.py, reasons and health in why.py."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from trace_platform.wire.fields import (
    ByteCount,
    DagName,
    DatasetUuid,
    DatasetVersionId,
    JobName,
    OutputIndex,
    PartitionCount,
    RowCount,
)
from trace_platform.wire.operator_code import CodeFiles
from trace_platform.wire.queues import (
    Hold,
    JobHolds,
    JobQueue,
    PauseRequest,
    Pressure,
    QueueOverview,
    WorkerStatus,
)
from trace_platform.wire.task import BlockNumber, EventScope, Strict
from trace_platform.wire.task_status import (
    PRIORITIES,
    AttemptStatus,
    JobLimits,
    Outcome,
    PinnedOutput,
    Priority,
    SelectedTasks,
    Status,
    TaskAction,
    TaskDetail,
    TaskGroup,
    TaskGroups,
    TaskList,
    TaskLog,
    TaskSelection,
    TasksOfJob,
    TaskStatus,
)
from trace_platform.wire.why import Health, HealthRule, LastEvent, Place, Reason, Why

__all__ = [
    "PRIORITIES",
    "Alive",
    "AttemptStatus",
    "DagStatus",
    "DatasetStatus",
    "DeployRequest",
    "DeployResponse",
    "EmitRequest",
    "EventList",
    "EventRecord",
    "Health",
    "HealthRule",
    "Hold",
    "JobHolds",
    "JobLimits",
    "JobQueue",
    "JobStatus",
    "LastEvent",
    "Outcome",
    "PauseRequest",
    "PinnedOutput",
    "Place",
    "Pressure",
    "Priority",
    "ProblemDetails",
    "QueueOverview",
    "Reason",
    "RollbackResponse",
    "SelectedTasks",
    "Status",
    "TaskAction",
    "TaskDetail",
    "TaskGroup",
    "TaskGroups",
    "TaskList",
    "TaskLog",
    "TaskSelection",
    "TaskStatus",
    "TasksOfJob",
    "TriggerRequest",
    "Why",
    "WorkerStatus",
]


class DeployRequest(Strict):
    yaml: str = Field(description="Text of the DAG file.")
    file: str = Field(
        default="dag.yaml",
        max_length=512,
        description="Name of the DAG file, as errors shall show it.",
    )
    code: CodeFiles = Field(
        default={}, description="Python files beside the DAG file that its operators need, by name."
    )
    plan_hash: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="Hash of a plan. The deploy is refused unless it would do exactly what "
        "that plan says.",
    )


class DeployResponse(Strict):
    """What a deploy did."""

    dag_name: DagName
    dag_version: UUID = Field(description="Id of the version that was deployed.")
    deploy_id: UUID | None = Field(
        description="Id of the deploy; null when the version was active already."
    )
    status: Literal["CutOver", "Building", "Unchanged"] = Field(
        description="`CutOver`: the version is active. `Building`: the version before serves "
        "until the data of this one is built, and gives way at once then. `Unchanged`: it was "
        "active already."
    )
    replaces: UUID | None = Field(
        default=None,
        description="Id of the version that stays active until this one is; null when there "
        "is none.",
    )
    new: bool = Field(description="Whether this content of the DAG was never deployed before.")
    jobs: list[str] = Field(description="Names of all jobs of the version.")
    added: list[str] = Field(description="Names of the jobs whose definition is new.")
    builds: list[str] = Field(description="Names of the jobs whose data is built for this version.")
    warnings: list[str] = Field(
        default=[],
        description="Mistakes in the file that have no effect, each with its line, and "
        "things that the DAG needs and that are missing here. The DAG is deployed all the same.",
    )


class RollbackResponse(Strict):
    dag_name: DagName
    dag_version: UUID | None = Field(
        description="Id of the version that is active now; null when a first version was "
        "given up, so that none is."
    )
    instead_of: UUID = Field(
        description="Id of the version that is not active any more, or was being built and "
        "is given up."
    )
    deploy_id: UUID | None = Field(
        description="Id of the rollback among the deploys; null when a version that was "
        "being built was given up and nothing else changed."
    )


class TriggerRequest(Strict):
    """The block range that a manual source shall emit."""

    start: BlockNumber = Field(description="First block to emit.")
    end: BlockNumber = Field(description="Last block to emit, included.")
    output: OutputIndex = Field(default=0, ge=0)


class EmitRequest(Strict):
    """Events of one dataset: by its published name, its uuid, or as DAG.JOB.OUTPUT."""

    dataset: str = Field(
        min_length=1,
        max_length=512,
        description="Published name of the dataset, its id, or DAG.JOB.OUTPUT.",
    )
    dataset_version: UUID | None = Field(
        default=None,
        description="Id of the generation that the events are for; the current one unless given.",
    )
    events: list[EventScope] = Field(
        min_length=1, max_length=100_000, description="The updates to announce."
    )


class JobStatus(Strict):
    name: JobName
    operator: str | None = Field(
        description="Name of the job's operator; null for a source whose events the "
        "dispatcher emits."
    )
    counts: dict[str, int] = Field(
        description="Number of tasks by status. A failed task that will run again counts as "
        "Retrying."
    )


class DatasetStatus(Strict):
    name: str = Field(description="Published name of the dataset, or DAG.JOB.OUTPUT.")
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    partitions: PartitionCount
    row_count: RowCount
    byte_count: ByteCount
    first_block: int | None = Field(
        description="First block that is committed; null when no partition is a block range."
    )
    last_block: int | None = Field(
        description="Last block that is committed; null when no partition is a block range."
    )


class DagStatus(Strict):
    dag_name: DagName
    as_of: datetime = Field(
        description="The database's time at this answer. Times given as `since` are compared "
        "with this clock."
    )
    routing: bool = Field(
        description="Whether events or invalidations of the DAG still wait to become tasks."
    )
    oldest_open: datetime | None = Field(
        default=None,
        description="When the oldest task that has not ended was made; null when all have ended.",
    )
    jobs: list[JobStatus] = Field(description="The jobs of the DAG.")
    datasets: list[DatasetStatus] = Field(description="The datasets that the DAG writes.")


class EventRecord(Strict):
    event_id: int = Field(description="Number of the event. A newer event has a larger one.")
    dataset_uuid: DatasetUuid
    dataset_name: str | None = Field(
        description="Published name of the dataset; null when it is not published."
    )
    dag_name: DagName
    job_name: JobName
    output_index: OutputIndex
    dataset_version: DatasetVersionId
    current: bool = Field(
        description="Whether the event is of a generation whose events become tasks. Events "
        "of older generations are kept and make none."
    )
    cursor: int | None = Field(
        description="Block number or tick that the dataset reached; null for an event of a "
        "partition."
    )
    partition_key: str | None = Field(
        description="Key of the partition that changed; null for an event of a cursor."
    )
    start: int | None = Field(
        description="First block of the partition; null when it is no block range."
    )
    end: int | None = Field(
        description="Last block of the partition, included; null when it is no block range."
    )
    producer_task_id: UUID | None = Field(
        description="Id of the task that emitted the event; null when a source without tasks "
        "or a person did."
    )
    producer_attempt: int | None = Field(
        description="Number of the attempt that emitted the event; null when no task did."
    )
    recorded_at: datetime = Field(description="When the event was recorded.")
    routed_at: datetime | None = Field(
        description="When the event became tasks, or was found to interest no job; null until then."
    )


class EventList(Strict):
    events: list[EventRecord] = Field(description="The events, the newest first.")


class Alive(Strict):
    """The service answers, and its database lets it work."""

    status: Literal["ok"] = Field(
        default="ok", description="Always `ok`; a service that cannot work answers with an error."
    )


class ProblemDetails(Strict):
    """An error, as application/problem+json."""

    type: str = Field(description="URI of the kind of error.")
    title: str = Field(description="Short name of the kind of error.")
    status: int = Field(description="The HTTP status of the answer.")
    code: str = Field(description="Stable code of the error, for programs.")
    detail: str = Field(description="What was wrong, and where, in one sentence.")
    hint: str | None = Field(
        default=None, description="What would put it right; absent when nothing is known to."
    )
    facts: dict[str, Any] | None = Field(
        default=None,
        description="Figures and names that belong to the error, by name; absent when there "
        "are none.",
    )
