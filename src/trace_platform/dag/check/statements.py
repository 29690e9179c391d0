"""The SQL of a DAG: it is read, and bound to the columns of what it reads where these are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from trace_platform.dag.check.derivations import by_column, by_input, folded, key_of, of_operator
from trace_platform.dag.check.names import Names
from trace_platform.dag.check.operators import CheckedOperators
from trace_platform.dag.check.updates import waking
from trace_platform.dag.model.dag import (
    CronSource,
    DatasetRef,
    Job,
    JobOutputRef,
    ManualSource,
    Publish,
)
from trace_platform.dag.model.edge import input_names
from trace_platform.dag.model.order_jobs import order_jobs
from trace_platform.dag.model.source import WebhookSource
from trace_platform.dag.read.dag_yaml import Path
from trace_platform.domain.alike import instead, meant
from trace_platform.operators.accepts import ANY, Updates, several
from trace_platform.operators.facts import Judged
from trace_platform.operators.statement import SparkProgram, Statement, Word
from trace_platform.sql.checker import Checker
from trace_platform.sql.checks import Program, Question, Readable, Step
from trace_platform.sql.derivation import Derivation
from trace_platform.sql.relations import Column
from trace_platform.wire.delivery import DELIVERY_COLUMNS
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.query_columns import query_columns

# An output of the DAG.
Output = tuple[str, int]
_UNKNOWN = Readable()
# Of columns that a problem names.
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Known:
    """Columns that an instance knows: of published datasets, and of outputs of the DAG whose data
    stays as it is."""

    datasets: Mapping[str, list[Column]] = field(default_factory=dict)
    outputs: Mapping[Output, list[Column]] = field(default_factory=dict)
    # Of outputs that no file tells of, by column: those of input 0 that it is computed from.
    made_of: Mapping[Output, Mapping[str, Sequence[str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SqlProblem:
    path: Path
    said: str
    # Line and column within the statement.
    within: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class CheckedColumns:
    """What is wrong with statements, and what the columns of outputs are made of, where that can be
    told."""

    problems: list[SqlProblem]
    derivations: dict[Output, Derivation]


def check_columns(
    names: Names, operators: CheckedOperators, emitted: Mapping[str, Updates], known: Known
) -> CheckedColumns:
    """Of every statement. What nobody knows the columns of is not held against one."""
    places = {id(job): n for n, job in enumerate(names.dag.jobs)}
    with Checker() as checker:
        check = _Check(names, operators, emitted, known, checker)
        problems = [
            problem
            for job in order_jobs(names)
            for problem in check.job(job, ("jobs", places[id(job)], "config"))
        ]
        return CheckedColumns(problems, check.derivations)


def has_sql(names: Names, operators: CheckedOperators) -> bool:
    judged = [operators.of(job) for job in names.jobs.values()]
    return any(_statements(each) or (each is not None and each.program) for each in judged)


class _Check:
    """One pass over the jobs, producers first: what each writes is known to those that read it."""

    def __init__(
        self,
        names: Names,
        operators: CheckedOperators,
        emitted: Mapping[str, Updates],
        known: Known,
        checker: Checker,
    ) -> None:
        self._names, self._operators, self._emitted = names, operators, emitted
        self._known, self._checker = known, checker
        self._outputs: dict[Output, Readable] = {}
        self.derivations: dict[Output, Derivation] = {}

    def job(self, job: Job, path: Path) -> list[SqlProblem]:
        judged = self._operators.of(job)
        for index, readable in enumerate(self._written(job, judged)):
            self._outputs[job.name, index] = readable
        if judged is not None:
            self._derive_of_operator(job, judged)
        problems: list[SqlProblem] = []
        for statement in _statements(judged):
            where = (*path, *statement.field)
            problems += self._word_problems(job, statement, where)
            answer = self._checker.answer(
                Question(
                    sql=statement.sql,
                    relations=self._reads(job),
                    wants_lineage=statement.output is not None,
                )
            )
            problems += [
                SqlProblem(where, each.said, _within(each.line, each.column))
                for each in answer.problems
            ]
            if statement.output is not None:
                self._outputs[job.name, statement.output] = Readable(columns=answer.columns)
                self._derive(job, statement.output, answer.derivation)
        if judged is not None and judged.program is not None:
            problems += self._program(job, judged.program, path)
        return problems

    def _program(self, job: Job, program: SparkProgram, path: Path) -> Iterator[SqlProblem]:
        """Of Spark SQL; what its steps write is known to those that read it."""
        asked = Program(
            steps=[Step(each.name, each.sql) for each in program.steps],
            words=list(program.words),
            values=program.values,
        )
        answer = self._checker.answer(Question(relations=self._called(job), program=asked))
        yield from (SqlProblem(path, each.said) for each in answer.problems)
        for step, found in zip(program.steps, answer.steps, strict=False):
            for each in found.problems:
                yield SqlProblem((*path, *step.field), each.said, _within(each.line, each.column))
        answers = {step.name: a for step, a in zip(program.steps, answer.steps, strict=False)}
        for index, output in enumerate(job.outputs):
            name = program.step_of(output, len(job.outputs))
            if name is None:
                said = f"no step makes the rows of output '{output}': give a step that name, or say"
                yield SqlProblem(path, f"{said} outputs: {{ {output}: STEP }}")
            elif name in answers:
                there, made = answers[name].named, answers[name].derivation
                known = [column.name for column in there or ()]
                yield from _missing(program, path, known) if known else ()
                if program.fold_values:
                    made = made and folded(made, program.fold_by, program.fold_values)
                elif there is not None:
                    self._outputs[job.name, index] = Readable(columns=there)
                self._derive(job, index, made)
        for output in program.outputs.keys() - set(job.outputs):
            cure = meant(output, job.outputs) or f"it has {', '.join(job.outputs)}"
            yield SqlProblem(
                (*path, "outputs", output), f"the job has no output '{output}'; {cure}"
            )

    def _derive(self, job: Job, output: int, found: Derivation | None) -> None:
        if found is not None:
            self.derivations[job.name, output] = by_input(found, job, self._keys(job))

    def _derive_of_operator(self, job: Job, judged: Judged) -> None:
        read = [self._readable(edge.source).columns for edge in job.inputs]
        for output, found in of_operator(job, judged, self._keys(job), read):
            self.derivations[job.name, output] = found
        for output in range(len(job.outputs)):
            made_of = self._known.made_of.get((job.name, output))
            if made_of is not None and job.inputs:
                columns = self._known.outputs.get((job.name, output), [])
                types = {column.name: column.type for column in columns}
                self.derivations[job.name, output] = by_column(
                    job, self._keys(job), 0, made_of, types
                )

    def _keys(self, job: Job) -> list[str]:
        return [key_of(edge.source, self._names) for edge in job.inputs]

    def _called(self, job: Job) -> dict[str, Readable]:
        """By the names that a transform may call it: also those of its job and its output, where
        they mean one input."""
        found: dict[str, Readable] = {}
        more: dict[str, list[Readable]] = {}
        for edge in job.inputs:
            for name in input_names(edge.source):
                more.setdefault(name, []).append(self._read(edge.source))
        found |= {name: each[0] for name, each in more.items() if len(each) == 1}
        return found | self._reads(job)

    def _reads(self, job: Job) -> dict[str, Readable]:
        """By the names that a task of the job may read it under."""
        found: dict[str, Readable] = {}
        named: dict[str, Readable] = {}
        for number, edge in enumerate(job.inputs):
            readable = self._read(edge.source)
            found[f"input_{number}"] = readable
            for name in self._published_as(edge.source):
                named.setdefault(name, readable)
        return named | found

    def _published_as(self, source: JobOutputRef | DatasetRef) -> Iterator[str]:
        if isinstance(source, DatasetRef):
            yield source.dataset
            return
        output = self._names.output(source)
        for name, publish in self._names.dag.publish.items():
            if len(publish.sources) == 1 and self._names.output(publish.sources[0]) == output:
                yield name

    def _read(self, source: JobOutputRef | DatasetRef) -> Readable:
        """Whatever it is called: what is made of it says what it is."""
        return structs.replace(self._readable(source), source=key_of(source, self._names))

    def _readable(self, source: JobOutputRef | DatasetRef) -> Readable:
        if isinstance(source, JobOutputRef):
            return self._output(source)
        publish = self._names.dag.publish.get(source.dataset)
        if publish is not None:
            return self._published(publish)
        return Readable(columns=self._known.datasets.get(source.dataset))

    def _published(self, publish: Publish) -> Readable:
        if publish.storage == "buffered" or len(publish.sources) != 1:
            return _UNKNOWN
        own = self._output(publish.sources[0])
        if publish.cold is None:
            return own
        cold = self._output(publish.cold).columns
        if own.columns is None or cold is None:
            return _UNKNOWN
        there = {column.name for column in cold}
        return Readable(columns=[*cold, *(c for c in own.columns if c.name not in there)])

    def _output(self, ref: JobOutputRef) -> Readable:
        job, index = self._names.output(ref)
        return self._outputs.get((job, index), _UNKNOWN) if isinstance(index, int) else _UNKNOWN

    def _written(self, job: Job, judged: Judged | None) -> list[Readable]:
        """What is known of each output before anything runs, or because it was written."""
        said = self._said(job, judged)
        return [
            readable
            if readable is not None and (readable.columns is not None or readable.refused)
            else Readable(columns=self._known.outputs.get((job.name, index)))
            for index, readable in enumerate([*said, *[None] * len(job.outputs)])
        ][: len(job.outputs)]

    def _said(self, job: Job, judged: Judged | None) -> Sequence[Readable]:
        if isinstance(job.source, CronSource | ManualSource):
            return [_no_rows(job, self._emitted)] * len(job.outputs)
        if isinstance(job.source, WebhookSource):
            return [_columns(DELIVERY_COLUMNS)] * len(job.outputs)
        if judged is None:
            return []
        if not judged.has_rows:
            return [_no_rows(job, self._emitted)] * len(job.outputs)
        if judged.keeps_columns:
            return [self._readable(edge.source) for edge in job.inputs if not edge.trigger]
        return [] if judged.columns is None else [_columns(each) for each in judged.columns]

    def _word_problems(self, job: Job, statement: Statement, path: Path) -> Iterator[SqlProblem]:
        for word in statement.words:
            for _, producer in waking(job, self._names):
                updates = self._emitted.get(producer.name, ANY)
                if updates.isdisjoint(word.updates):
                    emits = f"job '{producer.name}' emits {several(updates)}"
                    said = f"{word.text} is there when {several(word.updates)} wake the job"
                    yield SqlProblem(path, f"{said}, and {emits}", _place(statement.sql, word))
                    break


def _missing(program: SparkProgram, path: Path, there: list[str]) -> Iterator[SqlProblem]:
    for column, where in program.needed:
        if column not in there:
            said = f"the statement has no column '{column}'"
            cure = instead(column, there, _SHOWN, "it has")
            yield SqlProblem((*path, *where), f"{said}; {cure}")


def _statements(judged: Judged | None) -> tuple[Statement, ...]:
    """None where the config is wrong, which is reported by itself."""
    return () if judged is None else judged.statements


def _no_rows(job: Job, emitted: Mapping[str, Updates]) -> Readable:
    emits = f"job '{job.name}' emits {several(emitted.get(job.name, ANY))} alone"
    return Readable(refused=f"{emits}; read what a job wrote")


def _columns(said: Sequence[ManifestColumn]) -> Readable:
    found = query_columns(said)
    return Readable(columns=None if found is None else [Column(c.name, c.type) for c in found])


def _within(line: int | None, column: int | None) -> tuple[int, int] | None:
    return None if line is None or column is None else (line, column)


def _place(sql: str, word: Word) -> tuple[int, int]:
    before = sql[: word.at]
    return before.count("\n") + 1, len(before) - before.rfind("\n")
