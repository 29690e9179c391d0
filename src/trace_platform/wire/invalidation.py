"""Saying that a part of a dataset is not right any more, and what becomes of it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from trace_platform.wire.fields import DatasetUuid, DatasetVersionId, Label
from trace_platform.wire.task import InvalidScope, Strict


class InvalidateRequest(InvalidScope):
    dataset: str = Field(
        min_length=1,
        max_length=512,
        description="Published name of the dataset, its id, or DAG.JOB.OUTPUT. Its current "
        "generation is meant.",
    )
    request_id: UUID | None = Field(
        default=None,
        description="Id that the caller chooses. The same id twice is one invalidation.",
    )


class InvalidateResponse(Strict):
    invalidation_id: UUID = Field(description="Id of the invalidation.")
    new: bool = Field(description="False when the same request was made before.")
    remade: bool = Field(
        description="Whether the data is right already, so that its readers read it again. "
        "False: its producer makes it anew first."
    )
    jobs: list[str] = Field(description="The jobs that have something to do, as DAG.JOB.")
    note: str | None = Field(description="Why no job has; null when some have.")


class InvalidationStatus(Strict):
    """How far the platform is with an invalidation."""

    invalidation_id: UUID = Field(description="Id of the invalidation.")
    dataset: Label
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    scope: Literal["partition", "row_range"] = Field(
        description="Whether a partition is wrong, named by its key, or a range of blocks."
    )
    partition_key: str | None = Field(
        description="Key of the partition that is wrong; null for a range without one."
    )
    start: int | None = Field(
        description="First block that is wrong; null when no blocks are named."
    )
    end: int | None = Field(
        description="Last block that is wrong, included; null when no blocks are named."
    )
    remade: bool = Field(
        description="Whether the data is right already, so that its readers read it again. "
        "False: its producer makes it anew first."
    )
    reason: str = Field(description="Why it is wrong, in words for people.")
    cause_task_id: UUID | None = Field(
        description="Id of the task that reported it; null when a person did."
    )
    state: Literal["waiting", "open", "processed"] = Field(
        description="`waiting`: it did not become tasks yet. `open`: its tasks have not all "
        "completed. `processed`: they have."
    )
    tasks: int = Field(description="Number of tasks that it became.")
    tasks_done: int = Field(description="How many of them completed.")
    failed_task_id: UUID | None = Field(
        description="Id of a task that failed for good or was canceled, whose retry would go "
        "on; null when none did."
    )
    merged_into: UUID | None = Field(
        description="Id of the invalidation that stands for this one too, and whose tasks "
        "are shown; null when none does."
    )
    note: str | None = Field(
        description="What came of it, when it became no tasks; null otherwise."
    )
    created_at: datetime = Field(description="When it was reported.")
    routed_at: datetime | None = Field(description="When it became tasks; null until then.")
    processed_at: datetime | None = Field(description="When it was processed; null until then.")


class InvalidationList(Strict):
    invalidations: list[InvalidationStatus] = Field(
        description="The invalidations, the newest first."
    )
