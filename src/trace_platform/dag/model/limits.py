"""How a job's tasks run: how many at once, how long, how often, and what a long queue means."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from trace_platform.dag.model.fields import (
    Attempts,
    Count,
    DagModel,
    Duration,
    HeartbeatSeconds,
    TimeoutSeconds,
)

Priority = Literal["high", "normal", "low", "bulk"]
Strategy = Literal["PerUpdate", "PerPartition", "Bulk"]
PRIORITY_RANK: dict[str, int] = {"high": 0, "normal": 1, "low": 2, "bulk": 2}


class Scaling(DagModel):
    """How many tasks of the job run at once: `steady` is one, in order of arrival."""

    mode: Literal["backfill", "steady"] = Field(
        default="backfill",
        description="`backfill`: many tasks at once, up to `max_concurrency`. `steady`: one "
        "after the other, in order of arrival.",
    )
    max_concurrency: Count | None = Field(
        default=None, description="Tasks that run at once at most; no limit unless given."
    )

    @model_validator(mode="after")
    def _steady_is_one(self) -> Scaling:
        if self.mode == "steady" and self.max_concurrency not in (None, 1):
            raise ValueError(
                "steady means one task at a time: leave max_concurrency out, or use mode: backfill"
            )
        return self


class Backpressure(DagModel):
    """When the job's queue is too long, and what happens then."""

    max_queue_depth: Count | None = Field(
        default=None, description="Tasks that may wait; no limit unless given."
    )
    # In seconds.
    max_queue_age: Duration | None = Field(
        default=None,
        description="How long the oldest waiting task may wait, such as 90s, 10m, 2h or 1d; "
        "no limit unless given.",
    )
    mode: Literal["pause", "coalesce", "drop_oldest"] = Field(
        default="pause",
        description="What happens at a limit. `pause`: new tasks and the jobs upstream wait. "
        "`coalesce`: what arrives is taken into one open task. `drop_oldest`: the oldest "
        "waiting tasks are canceled.",
    )

    @model_validator(mode="after")
    def _has_limits(self) -> Backpressure:
        if self.max_queue_depth is None and self.max_queue_age is None:
            raise ValueError("give max_queue_depth, max_queue_age or both")
        if self.mode == "drop_oldest" and self.max_queue_depth is None:
            raise ValueError("mode: drop_oldest needs max_queue_depth: how many tasks to keep")
        return self


class Defaults(DagModel):
    """For jobs that do not say otherwise."""

    max_attempts: Attempts = Field(
        default=3, description="Attempts of a task before it fails for good."
    )
    timeout_seconds: TimeoutSeconds = Field(
        default=1800,
        description="Seconds after which an attempt is stopped and counts as failed. Where "
        "neither the job nor the file says it, a runtime's own value counts.",
    )
    heartbeat_timeout_seconds: HeartbeatSeconds = Field(
        default=60,
        description="Seconds of silence after which an attempt is given to another worker. "
        "Where neither the job nor the file says it, a runtime's own value counts.",
    )
    priority: Priority = Field(
        default="normal",
        description="Which waiting tasks start first: those of high before normal before "
        "low. `bulk` is another word for low.",
    )
