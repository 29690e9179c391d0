"""The DAG file: its fields, and the hashes that make a version and a job."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from trace_platform.domain.runtimes import Runtime, Runtimes
from trace_platform.wire import where as filters

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=128)]
Priority = Literal["high", "normal", "low", "bulk"]
Strategy = Literal["PerUpdate", "PerPartition", "Bulk"]
# Strict: neither `true` nor "5" is a count. It fits Postgres' integer.
Count = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
PRIORITY_RANK: dict[str, int] = {"high": 0, "normal": 1, "low": 2, "bulk": 2}


_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([smhd])")


def _absent(value: Any) -> bool:
    """For `exclude_if`: a field that came later leaves the hashes of older files as they were."""
    return value is None


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class JobOutputRef(_Model):
    job: Name
    output: int | Name = 0


class DatasetRef(_Model):
    dataset: Name


class InputEdge(_Model):
    source: JobOutputRef | DatasetRef = Field(alias="from")
    # In its normal form.
    where: dict[str, Any] | None = Field(default=None, exclude_if=_absent)

    @field_validator("source", mode="before")
    @classmethod
    def _which(cls, value: Any) -> Any:
        # Choosing the shape here gives one clear error instead of one per shape.
        if isinstance(value, dict):
            kind = DatasetRef if "dataset" in value else JobOutputRef
            return kind.model_validate(value)
        return value

    @field_validator("where", mode="before")
    @classmethod
    def _filter(cls, value: Any) -> Any:
        if value is None or value == {}:
            return None
        found = [_filter_error(path, said, value) for path, said in filters.problems(value)]
        if found:
            raise ValidationError.from_exception_data("where", found)
        return filters.normalised(value)


def _filter_error(path: filters.Path, said: str, where: Any) -> InitErrorDetails:
    kind = PydanticCustomError("where", "{said}", {"said": said})
    return InitErrorDetails(type=kind, loc=path, input=[where])


class Source(_Model):
    kind: Literal["manual"]


class Scaling(_Model):
    """How many tasks of the job run at once: `steady` is one, in order of arrival."""

    mode: Literal["backfill", "steady"] = "backfill"
    max_concurrency: Count | None = None

    @model_validator(mode="after")
    def _steady_is_one(self) -> Scaling:
        if self.mode == "steady" and self.max_concurrency not in (None, 1):
            raise ValueError(
                "steady means one task at a time: leave max_concurrency out, or use mode: backfill"
            )
        return self


class Backpressure(_Model):
    """When the job's queue is too long, and what happens then."""

    max_queue_depth: Count | None = None
    # In seconds.
    max_queue_age: float | None = Field(default=None, gt=0, le=366 * 86_400)
    mode: Literal["pause", "coalesce", "drop_oldest"] = "pause"

    @field_validator("max_queue_age", mode="before")
    @classmethod
    def _seconds(cls, value: Any) -> Any:
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise ValueError("write a duration as 90s, 10m, 2h or 1d, or as a number of seconds")
        return float(match[1]) * _UNIT_S[match[2]]

    @model_validator(mode="after")
    def _has_limits(self) -> Backpressure:
        if self.max_queue_depth is None and self.max_queue_age is None:
            raise ValueError("give max_queue_depth, max_queue_age or both")
        if self.mode == "drop_oldest" and self.max_queue_depth is None:
            raise ValueError("mode: drop_oldest needs max_queue_depth: how many tasks to keep")
        return self


class Defaults(_Model):
    max_attempts: int = Field(default=3, ge=1, le=100)
    timeout_seconds: float = Field(default=1800, gt=0, le=86_400)
    heartbeat_timeout_seconds: float = Field(default=60, ge=1, le=3_600)
    priority: Priority = "normal"


class Job(_Model):
    name: Name
    activation: Literal["source", "reactive"]
    source: Source | None = None
    # Any name: which there are is the registry's to say.
    runtime: Name | None = None
    operator: Name | None = None
    inputs: list[InputEdge] = []
    outputs: list[Name] = Field(default=["output_0"], min_length=1, max_length=64)
    execution_strategy: Strategy | None = None
    update_strategy: Literal["replace"] = "replace"
    config: dict[str, Any] = {}
    max_attempts: int | None = Field(default=None, ge=1, le=100)
    timeout_seconds: float | None = Field(default=None, gt=0, le=86_400)
    heartbeat_timeout_seconds: float | None = Field(default=None, ge=1, le=3_600)
    priority: Priority | None = None
    scaling: Scaling | None = Field(default=None, exclude_if=_absent)
    backpressure: Backpressure | None = Field(default=None, exclude_if=_absent)

    @field_validator("outputs", mode="before")
    @classmethod
    def _count_or_names(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 64:
            return [f"output_{index}" for index in range(value)]
        return value

    @model_validator(mode="after")
    def _fits_activation(self) -> Job:
        if self.activation == "source":
            self._fits_source()
        else:
            self._fits_reactive()
        if len(set(self.outputs)) != len(self.outputs):
            raise ValueError("two outputs have the same name")
        return self

    def _fits_source(self) -> None:
        if self.source is None:
            raise ValueError("a source job needs 'source', e.g. source: { kind: manual }")
        if self.inputs:
            raise ValueError("a source job has no inputs")
        tasks_only = ("execution_strategy", "scaling", "backpressure")
        extra = [field for field in tasks_only if getattr(self, field) is not None]
        if extra:
            raise ValueError(f"a source job has no tasks, so no {', '.join(extra)}")

    def _fits_reactive(self) -> None:
        missing = [f for f in ("runtime", "operator", "inputs") if not getattr(self, f)]
        if missing:
            raise ValueError(f"a reactive job needs {', '.join(missing)}")
        if self.source is not None:
            raise ValueError("only a job with activation: source has 'source'")

    @property
    def strategy(self) -> Strategy | None:
        """How events become tasks; None for a source."""
        return None if self.activation == "source" else self.execution_strategy or "PerUpdate"

    @property
    def max_concurrency(self) -> int | None:
        """How many of its tasks may run at once; None: any number."""
        if self.scaling is None:
            return None
        return 1 if self.scaling.mode == "steady" else self.scaling.max_concurrency

    def output_index(self, output: int | str) -> int | None:
        """The index of an output given by index or name, or None."""
        if isinstance(output, int):
            return output if 0 <= output < len(self.outputs) else None
        return self.outputs.index(output) if output in self.outputs else None


class Publish(_Model):
    source: JobOutputRef = Field(alias="from")


class Dag(_Model):
    name: Name
    defaults: Defaults = Defaults()
    jobs: list[Job] = Field(min_length=1, max_length=1_000)
    publish: dict[Name, Publish] = {}

    @property
    def content_hash(self) -> str:
        """Formatting and comments do not matter; meaning does."""
        return _digest(self.model_dump(mode="json", by_alias=True))

    def job_hash(self, job: Job) -> str:
        return _digest(self.effective(job))

    def on(self, runtimes: Runtimes) -> Dag:
        """The DAG as it runs here: with the limits of its runtimes where the author set none, and
        with its own datasets read from the jobs that make them.

        What makes no difference changes no hash; a runtime's new limit makes a new version.
        """
        jobs = [self._with_own_outputs(self._on_runtime(job, runtimes)) for job in self.jobs]
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
            edge.model_copy(update={"source": self.publish[edge.source.dataset].source})
            if isinstance(edge.source, DatasetRef) and edge.source.dataset in self.publish
            else edge
            for edge in job.inputs
        ]
        return job.model_copy(update={"inputs": inputs})

    def effective(self, job: Job) -> dict[str, Any]:
        """The job with the DAG's defaults filled in."""
        own = job.model_dump(mode="json", by_alias=True)
        for field, value in self.defaults.model_dump().items():
            if own[field] is None:
                own[field] = value
        return own


def _fewer_at_once(job: Job, runtime: Runtime) -> dict[str, Scaling]:
    most, asked = runtime.max_concurrency, job.max_concurrency
    if most is None or (asked is not None and asked <= most):
        return {}
    return {"scaling": Scaling(max_concurrency=most)}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
