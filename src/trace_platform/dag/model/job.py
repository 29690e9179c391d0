"""One job of a DAG: what it reads, what it writes, and how its work is done."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from trace_platform.dag.model.edge import InputEdge
from trace_platform.dag.model.fields import (
    DURATION_SCHEMA,
    MAX_DURATION_S,
    MAX_OUTPUTS,
    Attempts,
    ColumnName,
    DagModel,
    HeartbeatSeconds,
    Name,
    OperatorName,
    SecretName,
    Text,
    TimeoutSeconds,
    absent,
    again,
    chosen,
    distinct,
    empty,
    problem_at,
    seconds,
)
from trace_platform.dag.model.job_rules import job_problems
from trace_platform.dag.model.limits import Backpressure, Priority, Scaling, Strategy
from trace_platform.dag.model.source import SOURCES, AlwaysOnSource, Source, source_model

MAX_SECRETS = 64


class Bootstrap(DagModel):
    """What happens once, before a source emits for the first time."""

    reset_outputs: bool = Field(strict=True, description="Begin with empty outputs.")


class Udf(DagModel):
    """Code of your own, pinned by its hash."""

    bundle: str = Field(
        pattern=r"^sha256:[0-9a-f]{64}$", description="The bundle, as sha256: and 64 hex digits."
    )
    handler: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$",
        max_length=256,
        description="What is called in it, as module.function.",
    )
    memory_mb: int | None = Field(
        default=None,
        exclude_if=absent,
        strict=True,
        ge=128,
        le=10_240,
        description="Memory of a call; the runtime's unless given.",
    )


def _idle_timeout(value: Any) -> Any:
    if value is None or value == "never":
        return value
    said = "write never, 0, or a duration as 90s, 5m, 2h or 1d"
    try:
        found = seconds(value)
    except ValueError:
        raise ValueError(said) from None
    if not 0 <= found <= MAX_DURATION_S:
        raise ValueError(f"{said}, at most 366d")
    return found


IdleTimeout = Annotated[
    float | Literal["never"],
    BeforeValidator(_idle_timeout),
    WithJsonSchema({"anyOf": [{"const": "never"}, {"const": 0}, *DURATION_SCHEMA["anyOf"]]}),
]


class Job(DagModel):
    """Emits (activation: source), or runs when an input changes (activation: reactive)."""

    name: Name = Field(description="Lower-case letters, digits and '_'; each job's is its own.")
    description: Text | None = Field(
        default=None, exclude_if=absent, description="What the job is for."
    )
    activation: Literal["source", "reactive"] = Field(
        description="source: emits when told to. reactive: runs when an input changes."
    )
    source: Source | None = Field(default=None, description="What makes a source job emit.")
    bootstrap: Bootstrap | None = Field(
        default=None, exclude_if=absent, description="Once, before a source first emits."
    )
    # Any name: which there are is the registry's to say.
    runtime: Name | None = Field(
        default=None,
        description="Where it runs.",
        examples=["ecs_platform", "dispatcher", "lambda"],
    )
    operator: OperatorName | None = Field(
        default=None,
        description="Which operator does the work: its name, or ./FILE.py:CLASS beside this file.",
    )
    udf: Udf | None = Field(default=None, exclude_if=absent, description="For operator: udf.")
    inputs: list[InputEdge] = Field(default=[], description="What wakes a reactive job.")
    outputs: list[Name] = Field(
        default=["output_0"],
        min_length=1,
        max_length=MAX_OUTPUTS,
        description="The names of its outputs, or how many there are.",
    )
    execution_strategy: Strategy | None = Field(
        default=None, description="How events become tasks; PerUpdate unless given."
    )
    update_strategy: Literal["replace", "append"] = Field(
        default="replace", description="A commit takes the place of earlier rows, or adds to them."
    )
    unique_key: list[ColumnName] | None = Field(
        default=None,
        exclude_if=absent,
        min_length=1,
        max_length=32,
        description="For append: the columns that tell one row from another.",
    )
    config: dict[str, Any] = Field(default={}, description="The operator's own fields.")
    secrets: list[SecretName] = Field(
        default=[],
        exclude_if=empty,
        max_length=MAX_SECRETS,
        description="Names of secrets that the job may read. Never their values.",
    )
    max_attempts: Attempts | None = Field(
        default=None, description="Attempts before a task fails for good."
    )
    timeout_seconds: TimeoutSeconds | None = Field(
        default=None, description="An attempt that takes longer is stopped."
    )
    heartbeat_timeout_seconds: HeartbeatSeconds | None = Field(
        default=None, description="An attempt that is silent for so long goes to another worker."
    )
    # In seconds, or "never".
    idle_timeout: IdleTimeout | None = Field(
        default=None,
        exclude_if=absent,
        description="How long its worker stays when there is nothing to do: never, 0, 5m.",
    )
    priority: Priority | None = Field(default=None, description="Who is next; bulk is low.")
    scaling: Scaling | None = Field(
        default=None, exclude_if=absent, description="How many tasks run at once."
    )
    backpressure: Backpressure | None = Field(
        default=None, exclude_if=absent, description="When the queue is too long."
    )

    @field_validator("source", mode="before")
    @classmethod
    def _which(cls, value: Any) -> Any:
        if isinstance(value, str) and value in SOURCES:
            raise ValueError(f"write it as a mapping: source: {{ kind: {value} }}")
        if value is not None and not isinstance(value, dict):
            raise ValueError("write it as a mapping, such as source: { kind: manual }")
        return chosen(value, source_model)

    @field_validator("outputs", mode="before")
    @classmethod
    def _count_or_names(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_OUTPUTS:
            return [f"output_{index}" for index in range(value)]
        return value

    @field_validator("outputs", "unique_key", "secrets")
    @classmethod
    def _each_once(cls, value: list[str] | None) -> list[str] | None:
        distinct(value or [], "the name")
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _fits(cls, data: Any, handler: ModelWrapValidatorHandler[Job]) -> Job:
        """What is wrong with a field and what is wrong between fields is said together."""
        problems = job_problems(data) if isinstance(data, dict) else ()
        found = [problem_at(path, said) for path, said in problems]
        try:
            job = handler(data)
        except ValidationError as error:
            found = again(error) + found
        if found:
            raise ValidationError.from_exception_data("job", found)
        return job

    @property
    def always_on(self) -> bool:
        """Whether it is a source that runs without end on a worker."""
        return isinstance(self.source, AlwaysOnSource)

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
