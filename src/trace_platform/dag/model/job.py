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

from trace_platform.dag.model.address_input import with_address_input
from trace_platform.dag.model.checks import Check, refuse_same_names
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
from trace_platform.wire.check_spec import MAX_CHECKS

MAX_SECRETS = 64


class Bootstrap(DagModel):
    """What happens once, before a source emits for the first time."""

    reset_outputs: bool = Field(
        strict=True,
        description="Whether the source's outputs are emptied before it emits for the first time.",
    )


class Udf(DagModel):
    """Code of your own, pinned by its hash."""

    bundle: str = Field(
        pattern=r"^sha256:[0-9a-f]{64}$",
        description="The code as a bundle, by its hash: sha256: and 64 hex digits.",
    )
    handler: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$",
        max_length=256,
        description="The function in the bundle that is called, as module.function.",
    )
    memory_mb: int | None = Field(
        default=None,
        exclude_if=absent,
        strict=True,
        ge=128,
        le=10_240,
        description="Memory of a call in MB; the runtime's unless given.",
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

    name: Name = Field(
        description="Name of the job. It is part of its outputs' identity: a job with "
        "another name makes new datasets."
    )
    description: Text | None = Field(
        default=None, exclude_if=absent, description="What the job is for, for people."
    )
    activation: Literal["source", "reactive"] = Field(
        description="What makes the job work. A `source` emits updates when told to; a "
        "`reactive` job runs when an input changes."
    )
    source: Source | None = Field(
        default=None,
        description="For a source job, what makes it emit. A source job needs it, and a "
        "reactive job has none.",
    )
    bootstrap: Bootstrap | None = Field(
        default=None,
        exclude_if=absent,
        description="For a source job, what happens once, before it emits for the first time.",
    )
    # Any name: which there are is the registry's to say.
    runtime: Name | None = Field(
        default=None,
        examples=["ecs_platform", "dispatcher", "lambda"],
        description="Name of the runtime that runs the job. A reactive job needs it.",
    )
    operator: OperatorName | None = Field(
        default=None,
        description="What does the work: the name of an operator, or ./FILE.py:CLASS for a "
        "class in a file beside this one. A reactive job needs it.",
    )
    udf: Udf | None = Field(
        default=None, exclude_if=absent, description="Code to run; goes with `operator: udf` alone."
    )
    inputs: list[InputEdge] = Field(
        default=[],
        description="What the job reads. An update of any of them makes a task, unless the "
        "input says `trigger: false`. A reactive job needs at least one.",
    )
    outputs: list[Name] = Field(
        default=["output_0"],
        min_length=1,
        max_length=MAX_OUTPUTS,
        description="Names of the job's outputs, or how many there are: 2 stands for "
        "output_0 and output_1. Each is a dataset of its own.",
    )
    execution_strategy: Strategy | None = Field(
        default=None,
        description="How updates become tasks. `PerUpdate`: a task for each. `PerPartition`: "
        "a task for each partition that changed. `Bulk`: one task for everything that waits. "
        "PerUpdate unless given.",
    )
    update_strategy: Literal["replace", "append"] = Field(
        default="replace",
        description="What a commit does to earlier rows. `replace`: it takes the place of "
        "what lies wholly within its range. `append`: it adds rows.",
    )
    unique_key: list[ColumnName] | None = Field(
        default=None,
        exclude_if=absent,
        min_length=1,
        max_length=32,
        description="For `append`, the columns that tell one row from another.",
    )
    config: dict[str, Any] = Field(
        default={}, description="The operator's own fields, as the operators' reference lists them."
    )
    secrets: list[SecretName] = Field(
        default=[],
        exclude_if=empty,
        max_length=MAX_SECRETS,
        description="Names of secrets that the job may read, never their values. Nothing "
        "acts on it yet.",
    )
    max_attempts: Attempts | None = Field(
        default=None,
        description="Attempts of a task before it fails for good. The DAG's default unless given.",
    )
    timeout_seconds: TimeoutSeconds | None = Field(
        default=None,
        description="Seconds after which an attempt is stopped and counts as failed. The "
        "DAG's default unless given, else the runtime's.",
    )
    heartbeat_timeout_seconds: HeartbeatSeconds | None = Field(
        default=None,
        description="Seconds of silence after which an attempt is given to another worker. "
        "The DAG's default unless given, else the runtime's.",
    )
    # In seconds, or "never".
    idle_timeout: IdleTimeout | None = Field(
        default=None,
        exclude_if=absent,
        description="How long the job's worker stays when there is nothing to do: never, 0, "
        "or a duration such as 5m. Nothing acts on it yet.",
    )
    priority: Priority | None = Field(
        default=None,
        description="Which waiting tasks start first: those of high before normal before "
        "low. `bulk` is another word for low. The DAG's default unless given.",
    )
    scaling: Scaling | None = Field(
        default=None,
        exclude_if=absent,
        description="How many tasks of the job run at once; no limit unless given.",
    )
    backpressure: Backpressure | None = Field(
        default=None,
        exclude_if=absent,
        description="When the job's queue is too long, and what happens then; no limit "
        "unless given.",
    )
    checks: list[Check] = Field(
        default=[],
        exclude_if=empty,
        max_length=MAX_CHECKS,
        description="What must hold of the rows that it writes, before others read them.",
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

    @field_validator("checks")
    @classmethod
    def _names_differ(cls, value: list[Check]) -> list[Check]:
        refuse_same_names(list(value))
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _fits(cls, data: Any, handler: ModelWrapValidatorHandler[Job]) -> Job:
        """What is wrong with a field and what is wrong between fields is said together."""
        data = with_address_input(data)
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
