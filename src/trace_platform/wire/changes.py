"""What changed in an instance, in few words: whoever shows it asks again."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trace_platform.wire.task import Strict

Kind = Literal["task", "job", "dataset", "head", "dag", "backfill", "invalidation", "alert"]


class Change(Strict):
    kind: Kind = Field(description="What changed.")
    id: str | None = Field(
        default=None,
        description="Id of a task, a dataset, a backfill or an invalidation; DAG.JOB of a job, and "
        "of the source that a head is known from; name of a DAG. Null: some of that kind.",
    )


class Changes(Strict):
    """A line of `GET /internal/changes`, and the data of an event `change` of `GET /v1/live`."""

    changes: list[Change] = Field(description="What changed, each thing once.")
