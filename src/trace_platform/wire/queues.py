"""What waits and runs, what holds it up, and who works."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from trace_platform.wire.fields import (
    DagName,
    JobName,
)
from trace_platform.wire.task import Strict
from trace_platform.wire.task_status import Priority


class PauseRequest(Strict):
    reason: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="Why the job is paused, for the people who see it later.",
    )


class Hold(Strict):
    """Why a job starts no tasks of these priorities."""

    cause: str = Field(
        description="Who holds the job: `user`, or as DAG.JOB the consumer whose queue is too long."
    )
    priorities: list[Priority] = Field(description="Tasks of these priorities do not start.")
    reason: str = Field(description="Why the job is held, for people.")
    since: datetime = Field(description="When the hold began.")


class JobHolds(Strict):
    """What holds the job now."""

    dag_name: DagName
    job_name: JobName
    changed: bool = Field(
        description="Whether the call changed something. False: it was so before."
    )
    holds: list[Hold] = Field(description="Everything that holds the job now.")


class Pressure(Strict):
    """A queue that passed a limit and did not fall below half of it yet."""

    priorities: list[Priority] = Field(
        description="Tasks of these priorities are deferred, merged or dropped, as `mode` says."
    )
    mode: Literal["pause", "coalesce", "drop_oldest"] = Field(description="What happens to them.")
    depth: int = Field(description="Number of tasks that wait.")
    max_depth: int | None = Field(description="Number of tasks that may wait; null is no limit.")
    age_s: float = Field(description="Seconds that the oldest task has waited.")
    max_age_s: float | None = Field(
        description="Seconds that the oldest task may wait; null is no limit."
    )
    since: datetime = Field(description="When the queue passed its limit.")


class JobQueue(Strict):
    """What one definition of a job has left to do."""

    runtime: str = Field(description="Name of the runtime that runs the job.")
    dag_name: DagName
    job_name: JobName
    is_source: bool = Field(
        description="Whether the job is a source, whose runs have no end and have slots of "
        "their own."
    )
    active: bool = Field(
        description="Whether this definition of the job is deployed. False: a later deploy "
        "replaced it, and these are its last tasks."
    )
    priority: Priority = Field(description="Which waiting tasks start first.")
    ready: int = Field(
        description="Number of tasks that could start now, limits and holds of the job aside."
    )
    oldest_age_s: float | None = Field(
        description="Seconds that the oldest ready task has waited; null when none is ready."
    )
    deferred: int = Field(description="Number of tasks that wait for backpressure to end.")
    running: int = Field(description="Number of tasks that run.")
    retrying: int = Field(description="Number of failed tasks that will run again.")
    max_concurrency: int | None = Field(
        description="Tasks of the job that run at once at most; null is no limit."
    )
    holds: list[Hold] = Field(description="Everything that holds the job now.")
    pressure: Pressure | None = Field(
        description="The queue's backpressure; null when there is none."
    )


class WorkerStatus(Strict):
    worker_id: str = Field(description="Name of the worker.")
    runtime: str = Field(description="Name of the runtime whose tasks it runs.")
    slots: int = Field(description="Number of tasks that it can run at once.")
    running: int = Field(description="Number of tasks that it runs.")
    source_slots: int = Field(
        description="Number of runs of sources that it can hold at once, beside `slots`."
    )
    running_sources: int = Field(description="Number of runs of sources that it holds.")
    seen_s: float = Field(description="Seconds since its last sign of life.")


class QueueOverview(Strict):
    """The jobs that have something to do or are on hold, and the workers that are alive."""

    queues: list[JobQueue] = Field(description="The jobs that have something to do or are on hold.")
    workers: list[WorkerStatus] = Field(description="The workers that are alive.")
    dead_letters: int = Field(description="Number of messages that nobody could handle.")
