"""The user's control API: deploy, trigger, look."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from trace_platform.wire.task import BlockNumber, EventScope, Strict


class DeployRequest(Strict):
    yaml: str
    file: str = Field(default="dag.yaml", max_length=512)


class DeployResponse(Strict):
    dag_name: str
    dag_version: UUID
    new: bool
    jobs: list[str]
    added: list[str]


class TriggerRequest(Strict):
    """The block range that a manual source shall emit."""

    start: BlockNumber
    end: BlockNumber
    output: int = Field(default=0, ge=0)


class TriggerResponse(Strict):
    accepted: int


class EmitRequest(Strict):
    """Events of one dataset: by its published name, its uuid, or as DAG.JOB.OUTPUT."""

    dataset: str = Field(min_length=1, max_length=512)
    # The current generation unless another is named.
    dataset_version: UUID | None = None
    events: list[EventScope] = Field(min_length=1, max_length=100_000)


class EmitResponse(Strict):
    accepted: int


class JobStatus(Strict):
    name: str
    operator: str | None
    # Tasks by status; a failed one that will run again counts as Retrying.
    counts: dict[str, int]


class DatasetStatus(Strict):
    name: str
    dataset_uuid: UUID
    dataset_version: UUID
    partitions: int
    row_count: int
    byte_count: int
    first_block: int | None
    last_block: int | None


class DagStatus(Strict):
    dag_name: str
    jobs: list[JobStatus]
    datasets: list[DatasetStatus]


Status = Literal["Queued", "Running", "Completed", "Failed", "Canceled"]


class TaskStatus(Strict):
    task_id: UUID
    dag_name: str
    job_name: str
    status: Status
    attempt: int
    progress: dict[str, Any] | None
    inputs: list[dict[str, Any]]
    error_code: str | None
    error_message: str | None
    next_retry_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    # It waits for the pressure on its job to fall.
    pending_backpressure: bool = False


class TaskList(Strict):
    tasks: list[TaskStatus]


class TaskAction(Strict):
    """The task's status once it was canceled or retried."""

    status: str
