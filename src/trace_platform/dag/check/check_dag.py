"""What must hold between the parts of a DAG, beyond the shape of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trace_platform.dag.check.cycles import cycle_problems
from trace_platform.dag.check.names import Names, Problem
from trace_platform.dag.check.operators import CheckedOperators
from trace_platform.dag.check.publish import publish_problems
from trace_platform.dag.check.row_checks import check_problems
from trace_platform.dag.check.runtime import runtime_problems
from trace_platform.dag.check.statements import Known, Output, check_columns, has_sql
from trace_platform.dag.check.unused import unused_fields
from trace_platform.dag.check.updates import emitted_updates, update_problems
from trace_platform.dag.model.dag import Dag, Job, JobOutputRef
from trace_platform.dag.read.dag_yaml import (
    DagError,
    DagErrors,
    Path,
    Place,
    error_at,
    read_draft,
)
from trace_platform.dag.read.errors import MAX_LISTED
from trace_platform.domain.own_code import Code
from trace_platform.domain.runtimes import Runtimes
from trace_platform.operators.accepts import Updates
from trace_platform.sql.derivation import Derivation

BUILT_IN = Runtimes.default()
NO_CODE = Code()


# What an instance does not add to.
NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True)
class CheckedDag:
    """A DAG without errors as it runs here, and what its author should know of it."""

    dag: Dag
    file: str
    root: Place
    warnings: list[DagError]
    has_sql: bool
    # By output: what its columns are made of, where that can be told.
    derivations: Mapping[Output, Derivation]

    @property
    def said_warnings(self) -> list[str]:
        return [warning.at(self.file, "warning") for warning in self.warnings[:MAX_LISTED]]


def check_dag(text: str, runtimes: Runtimes = BUILT_IN, code: Code = NO_CODE) -> Dag:
    """The DAG in this YAML as it runs here, with the content of the `code` that its jobs name.
    Raise DagErrors with every error found."""
    return check_file(text, runtimes, code=code).dag


def check_file(
    text: str,
    runtimes: Runtimes = BUILT_IN,
    file: str = "dag.yaml",
    code: Code = NO_CODE,
    known: Known = NOTHING_KNOWN,
) -> CheckedDag:
    """The same, with what is no error. Raise DagErrors with every error found. `known` are the
    columns of what its SQL reads, beyond those that its operators say."""
    draft = read_draft(text)
    names = Names(draft.dag, draft.root)
    operators = CheckedOperators(draft.dag.jobs, runtimes, code)
    emitted = emitted_updates(names, operators)
    errors = draft.errors + [
        error_at(draft.root, path, problem)
        for path, problem in _problems(names, runtimes, operators, emitted)
        if not draft.doubts(path)
    ]
    columns = check_columns(names, operators, emitted, known)
    errors += [
        error_at(draft.root, each.path, each.said, each.within)
        for each in columns.problems
        if not draft.doubts(each.path) and not draft.doubts_inputs(each.path[:2])
    ]
    if errors:
        raise DagErrors(errors)
    warnings = [error_at(draft.root, path, said) for path, said in unused_fields(draft.dag)]
    in_order = sorted(warnings, key=lambda each: (each.line, each.column))
    dag = draft.dag.on(runtimes).with_code(code)
    reads_sql = has_sql(names, operators)
    return CheckedDag(dag, file, draft.root, in_order, reads_sql, columns.derivations)


def _problems(
    names: Names, runtimes: Runtimes, operators: CheckedOperators, emitted: Mapping[str, Updates]
) -> Iterator[Problem]:
    for index, job in enumerate(names.dag.jobs):
        path: Path = ("jobs", index)
        yield from _name_problems(job, path, names)
        for number, edge in enumerate(job.inputs):
            if isinstance(edge.source, JobOutputRef):
                yield from names.dangling(edge.source, (*path, "inputs", number, "from"))
        yield from _read_twice(job, path, names)
        yield from runtime_problems(job, path, names, runtimes, operators)
        yield from update_problems(job, path, names, runtimes, operators, emitted)
        yield from check_problems(job, path, names, runtimes, operators)
    yield from publish_problems(names, operators)
    yield from cycle_problems(names)


def _name_problems(job: Job, path: Path, names: Names) -> Iterator[Problem]:
    if job.name and names.jobs[job.name] is not job:
        first = next(i for i, each in enumerate(names.dag.jobs) if each.name == job.name)
        line = names.root.nearest(("jobs", first, "name")).line
        yield (*path, "name"), f"line {line} has a job '{job.name}' already: rename one"


def _read_twice(job: Job, path: Path, names: Names) -> Iterator[Problem]:
    """An event makes one task, with the filter of one edge: rows of the other would be lost."""
    first: dict[object, int] = {}
    for number, edge in enumerate(job.inputs):
        if not edge.trigger:
            continue
        other = first.setdefault(names.read(edge.source), number)
        if other != number and (edge.where or job.inputs[other].where):
            said = f"inputs[{other}] reads this dataset too: one filter has to cover both"
            yield (*path, "inputs", number), said
