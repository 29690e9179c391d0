"""`sql_transform`: Spark SQL over the job's inputs, as one or several datasets.

Each statement reads the inputs and the steps before it by name. `mode` says how the job moves
forward: row by row, by whole buckets of blocks, or all of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Self

from pydantic import Field, StringConstraints, model_validator

from trace_platform.operators.accepts import ANYTHING, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext, Writes
from trace_platform.operators.statement import SparkProgram, SparkStep
from trace_platform.operators.transform.mode import TransformConfig
from trace_platform.operators.transform.parameters import END, START, Name, Parameter

_MAX_CHARS = 100_000
# What the only statement is called in errors.
ONLY = "sql"

Sql = Annotated[str, StringConstraints(min_length=1, max_length=_MAX_CHARS)]


class Step(OperatorConfig):
    name: Name = Field(description="What later steps, and `outputs`, call its rows.")
    sql: Sql = Field(description="One SELECT of Spark SQL.")


class Config(TransformConfig):
    sql: Sql | None = Field(default=None, description="One SELECT of Spark SQL; or steps.")
    steps: list[Step] = Field(
        default=[], max_length=64, description="Several, each read by later ones by its name."
    )
    step_of_output: dict[str, str] = Field(
        default={}, alias="outputs", description="By output of the job: the step that it has."
    )
    params: dict[Name, Parameter] = Field(
        default={}, description="What :name stands for: a value, or its type and value."
    )

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.sql is None) == (not self.steps):
            raise ValueError("give either sql, one statement, or steps, several with their names")
        names = [step.name for step in self.steps]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two steps have the name {name!r}: rename one")
        for output, name in self.step_of_output.items():
            if name not in names:
                known = ", ".join(names) or "there are no steps"
                raise ValueError(f"outputs: {output} is to have step {name!r}; there are: {known}")
        if taken := {START, END} & self.params.keys():
            raise ValueError(f"params: {taken.pop()} is a block of the task: take another name")
        return self

    def program(self) -> SparkProgram:
        steps = tuple(
            SparkStep(("steps", n, "sql"), step.name, step.sql) for n, step in enumerate(self.steps)
        )
        if self.sql is not None:
            steps = (SparkStep(("sql",), ONLY, self.sql),)
        blocks = () if self.mode == "full" else (START, END)
        program = SparkProgram(
            steps,
            (*self.params, *blocks),
            {name: repr(value) for name, value in self.params.items()},
            dict(self.step_of_output),
        )
        if self.window is not None and self.window.time is not None:
            return replace(program, needed=((self.window.time, ("window", "time")),))
        if self.fold is None:
            return program
        return replace(
            program,
            needed=tuple((column, ("fold", where)) for column, where in self.fold.needed),
            fold_by=tuple(self.fold.by),
            fold_values=self.fold.results,
        )


class SqlTransform:
    name: ClassVar[str] = "sql_transform"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None
    accepts: ClassVar[Accepts] = ANYTHING
    emits: ClassVar[Updates | None] = None
    commits_ticks: ClassVar[bool] = True
    writes: ClassVar[Writes | None] = "files"

    def run(self, task: TaskContext) -> Result:
        from trace_platform.operators.transform.run import run
        from trace_platform.operators.transform.run_sql import frames_of
        from trace_platform.operators.transform.sql_errors import said_of_rows

        config: Config = task.config
        steps = config.program().steps
        return run(
            task, config, lambda reads: frames_of(task, config, reads), lambda: said_of_rows(steps)
        )
