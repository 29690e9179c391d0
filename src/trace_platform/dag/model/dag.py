"""The DAG file as a whole, and the hashes that make a version and a job."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from trace_platform.dag.model.edge import DatasetRef, InputEdge, JobOutputRef
from trace_platform.dag.model.fields import Count, DagModel, Name, Text, absent
from trace_platform.dag.model.job import Bootstrap, Job, Udf
from trace_platform.dag.model.limits import (
    PRIORITY_RANK,
    Backpressure,
    Defaults,
    Priority,
    Scaling,
    Strategy,
)
from trace_platform.dag.model.publish import Column, Publish
from trace_platform.dag.model.source import (
    AlwaysOnSource,
    CronSource,
    ManualSource,
    Source,
    WebhookSource,
)
from trace_platform.domain.digest import digest
from trace_platform.domain.own_code import FUNCTIONS, Code, CodeRef, code_of
from trace_platform.domain.runtimes import Runtime, Runtimes

__all__ = [
    "MAX_JOBS",
    "PRIORITY_RANK",
    "AlwaysOnSource",
    "Backpressure",
    "Bootstrap",
    "Column",
    "Count",
    "CronSource",
    "Dag",
    "DatasetRef",
    "Defaults",
    "InputEdge",
    "Job",
    "JobOutputRef",
    "ManualSource",
    "Name",
    "Priority",
    "Publish",
    "Scaling",
    "Source",
    "Strategy",
    "Udf",
    "WebhookSource",
]

MAX_JOBS = 1_000
# For people alone: no task runs differently for them.
_NOT_HASHED = ("description",)


class Dag(DagModel):
    """Jobs, what each reads and writes, and which outputs are published under a name."""

    name: Name = Field(
        description="Name of the DAG. A file with the same name is another version of the same DAG."
    )
    description: Text | None = Field(
        default=None, exclude_if=absent, description="What the DAG is for, for people."
    )
    defaults: Defaults = Field(
        default=Defaults(), description="Limits and priority of jobs that do not set their own."
    )
    jobs: list[Job] = Field(
        min_length=1,
        max_length=MAX_JOBS,
        description="The jobs of the DAG. No two have the same name.",
    )
    publish: dict[Name, Publish] = Field(
        default={},
        description="Datasets that others read, by the name under which they are published.",
    )

    @field_validator("jobs", mode="before")
    @classmethod
    def _not_too_many(cls, value: Any) -> Any:
        # Before each is looked at: that takes time.
        if isinstance(value, list) and len(value) > MAX_JOBS:
            said = f"has {len(value):,} jobs, at most {MAX_JOBS:,} are allowed"
            raise ValueError(f"{said}: split the DAG")
        return value

    @property
    def content_hash(self) -> str:
        """Formatting and comments do not matter; meaning does."""
        return digest(self.model_dump(mode="json", by_alias=True))

    def job_hash(self, job: Job) -> str:
        own = self.effective(job)
        return digest({field: own[field] for field in own if field not in _NOT_HASHED})

    def on(self, runtimes: Runtimes) -> Dag:
        """The DAG as it runs here: with the limits of its runtimes where the author set none, and
        with its own datasets read from the jobs that make them.

        What makes no difference changes no hash; a runtime's new limit makes a new version.
        """
        jobs = [self._with_own_outputs(self._on_runtime(job, runtimes)) for job in self.jobs]
        return self.model_copy(update={"jobs": jobs})

    def with_code(self, code: Code) -> Dag:
        """With the digest of what each job's code is now: another content is another operator."""
        jobs = [
            _pinned(job, code, ref) if (ref := code_of(job.operator, job.config)) else job
            for job in self.jobs
        ]
        return self.model_copy(update={"jobs": jobs})

    def _on_runtime(self, job: Job, runtimes: Runtimes) -> Job:
        if job.runtime is None:
            return job
        runtime = runtimes.get(job.runtime)
        limits = {
            field: getattr(runtime, field)
            for field in ("timeout_seconds", "heartbeat_timeout_seconds")
            if getattr(job, field) is None
            and field not in self.defaults.model_fields_set
            and getattr(runtime, field) != getattr(self.defaults, field)
        }
        return job.model_copy(update=limits | _fewer_at_once(job, runtime))

    def _with_own_outputs(self, job: Job) -> Job:
        """With job and output instead of a name, another producer under that name is a change."""
        inputs = [
            edge.model_copy(update={"source": own}) if (own := self._own_output(edge)) else edge
            for edge in job.inputs
        ]
        return job.model_copy(update={"inputs": inputs})

    def _own_output(self, edge: InputEdge) -> JobOutputRef | None:
        """The one output behind a dataset of this DAG. With several it stays a dataset."""
        if not isinstance(edge.source, DatasetRef) or edge.source.dataset not in self.publish:
            return None
        published = self.publish[edge.source.dataset]
        return published.source if published.storage != "buffered" else None

    def effective(self, job: Job) -> dict[str, Any]:
        """The job with the DAG's defaults filled in."""
        own = job.model_dump(mode="json", by_alias=True)
        for field, value in self.defaults.model_dump().items():
            if own[field] is None:
                own[field] = value
        return own


def _pinned(job: Job, code: Code, ref: CodeRef) -> Job:
    now = str(code.pinned(ref))
    if job.operator == FUNCTIONS:
        return job.model_copy(update={"config": job.config | {"function": now}})
    return job.model_copy(update={"operator": now})


def _fewer_at_once(job: Job, runtime: Runtime) -> dict[str, Scaling]:
    most, asked = runtime.max_concurrency, job.max_concurrency
    if most is None or (asked is not None and asked <= most):
        return {}
    return {"scaling": Scaling(max_concurrency=most)}
