"""A statement of SQL in an operator's config, as it is checked before a deploy."""

from __future__ import annotations

from dataclasses import dataclass, field

from trace_platform.operators.accepts import Updates


@dataclass(frozen=True, slots=True)
class Word:
    """Something of a statement that an update stands in for when it runs, such as `$start`."""

    text: str
    # Where in the statement it is.
    at: int
    # Updates of these kinds have it.
    updates: Updates


@dataclass(frozen=True, slots=True)
class Statement:
    # Of the config.
    field: tuple[str | int, ...]
    # As it runs. What is put in later has a stand-in of the same length, so that places stay.
    sql: str
    words: tuple[Word, ...] = ()
    # The output whose rows its answer is; None: of none.
    output: int | None = None


@dataclass(frozen=True, slots=True)
class SparkStep:
    """A named statement of Spark SQL in a config; later ones read it by its name."""

    field: tuple[str | int, ...]
    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Folded:
    """A column that a fold keeps: what is called, and of which column of the statement."""

    call: str
    column: str | None


@dataclass(frozen=True, slots=True)
class SparkProgram:
    steps: tuple[SparkStep, ...]
    # Parameters that it may name.
    words: tuple[str, ...] = ()
    # Those that are the same in each task, and what they stand for.
    values: dict[str, str] = field(default_factory=dict)
    # By the job's outputs: the step whose rows they are. One that is not named has the rows of the
    # step of its own name, or, where it is the only output, of the last.
    outputs: dict[str, str] = field(default_factory=dict)
    # Columns that a step has whose rows are an output, each with the place in the config that names
    # it.
    needed: tuple[tuple[str, tuple[str, str]], ...] = ()
    # Of a fold: the columns that these become, the key, and by name what is added up for it.
    fold_by: tuple[str, ...] = ()
    fold_values: dict[str, Folded] = field(default_factory=dict)

    def step_of(self, output: str, outputs: int) -> str | None:
        """None: it has none."""
        names = [step.name for step in self.steps]
        if output in self.outputs:
            return self.outputs[output]
        if output in names:
            return output
        return names[-1] if outputs == 1 and not self.outputs else None
