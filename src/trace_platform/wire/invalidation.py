"""Saying that a part of a dataset is not right any more, and what becomes of it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from trace_platform.wire.task import InvalidScope, Strict


class InvalidateRequest(InvalidScope):
    # A published name, a uuid, or DAG.JOB.OUTPUT; its current generation.
    dataset: str = Field(min_length=1, max_length=512)
    # Made by the client: the same one twice is one invalidation.
    request_id: UUID | None = None


class InvalidateResponse(Strict):
    invalidation_id: UUID
    # False when the same request was made before.
    new: bool
    # Whoever read it reads it again; else its producer makes it anew first.
    remade: bool
    # Who has something to do, as DAG.JOB.
    jobs: list[str]
    # Why nobody has.
    note: str | None


class InvalidationStatus(Strict):
    """waiting: not given to anybody yet. open: tasks are under way. processed: all completed."""

    invalidation_id: UUID
    dataset: str
    dataset_uuid: UUID
    dataset_version: UUID
    scope: Literal["partition", "row_range"]
    partition_key: str | None
    start: int | None
    end: int | None
    remade: bool
    reason: str
    cause_task_id: UUID | None
    state: Literal["waiting", "open", "processed"]
    tasks: int
    tasks_done: int
    # One that failed for good or was canceled: a retry of it goes on.
    failed_task_id: UUID | None
    # Another one stands for this one, too: its tasks are shown.
    merged_into: UUID | None
    note: str | None
    created_at: datetime
    routed_at: datetime | None
    processed_at: datetime | None


class InvalidationList(Strict):
    invalidations: list[InvalidationStatus]
