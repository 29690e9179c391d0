"""The DAG file: its fields, and the hashes that make a version and a job."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=128)]
Priority = Literal["high", "normal", "low", "bulk"]
PRIORITY_RANK: dict[str, int] = {"high": 0, "normal": 1, "low": 2, "bulk": 2}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class JobOutputRef(_Model):
    job: Name
    output: int | Name = 0


class DatasetRef(_Model):
    dataset: Name


class InputEdge(_Model):
    source: JobOutputRef | DatasetRef = Field(alias="from")

    @field_validator("source", mode="before")
    @classmethod
    def _which(cls, value: Any) -> Any:
        # Choosing the shape here gives one clear error instead of one per shape.
        if isinstance(value, dict):
            kind = DatasetRef if "dataset" in value else JobOutputRef
            return kind.model_validate(value)
        return value


class Source(_Model):
    kind: Literal["manual"]


class Defaults(_Model):
    max_attempts: int = Field(default=3, ge=1, le=100)
    timeout_seconds: float = Field(default=1800, gt=0, le=86_400)
    heartbeat_timeout_seconds: float = Field(default=60, ge=1, le=3_600)
    priority: Priority = "normal"


class Job(_Model):
    name: Name
    activation: Literal["source", "reactive"]
    source: Source | None = None
    runtime: Literal["ecs_platform"] | None = None
    operator: str | None = None
    inputs: list[InputEdge] = []
    outputs: list[Name] = Field(default=["output_0"], min_length=1, max_length=64)
    execution_strategy: Literal["PerUpdate", "PerPartition"] | None = None
    update_strategy: Literal["replace"] = "replace"
    config: dict[str, Any] = {}
    max_attempts: int | None = Field(default=None, ge=1, le=100)
    timeout_seconds: float | None = Field(default=None, gt=0, le=86_400)
    heartbeat_timeout_seconds: float | None = Field(default=None, ge=1, le=3_600)
    priority: Priority | None = None

    @field_validator("outputs", mode="before")
    @classmethod
    def _count_or_names(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 64:
            return [f"output_{index}" for index in range(value)]
        return value

    @model_validator(mode="after")
    def _fits_activation(self) -> Job:
        if self.activation == "source":
            if self.source is None:
                raise ValueError("a source job needs 'source', e.g. source: { kind: manual }")
            if self.inputs:
                raise ValueError("a source job has no inputs")
        else:
            missing = [f for f in ("runtime", "operator", "inputs") if not getattr(self, f)]
            if missing:
                raise ValueError(f"a reactive job needs {', '.join(missing)}")
            if self.source is not None:
                raise ValueError("only a job with activation: source has 'source'")
        if len(set(self.outputs)) != len(self.outputs):
            raise ValueError("two outputs have the same name")
        return self

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

    def effective(self, job: Job) -> dict[str, Any]:
        """The job with the DAG's defaults filled in."""
        own = job.model_dump(mode="json", by_alias=True)
        for field, value in self.defaults.model_dump().items():
            if own[field] is None:
                own[field] = value
        return own


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
