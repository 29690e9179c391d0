"""What must hold between the parts of a DAG, beyond the shape of each."""

from __future__ import annotations

from collections.abc import Iterator

from trace_platform.dispatcher.check_dag_cycles import cycle_problems
from trace_platform.dispatcher.check_dag_names import Names, Problem
from trace_platform.dispatcher.check_dag_runtime import runtime_problems
from trace_platform.dispatcher.check_dag_updates import update_problems
from trace_platform.dispatcher.check_publish import publish_problems
from trace_platform.domain.runtimes import Runtimes
from trace_platform.wire.dag import Dag, Job, JobOutputRef
from trace_platform.wire.dag_yaml import DagErrors, Path, error_at, read_draft

BUILT_IN = Runtimes.default()


def check_dag(text: str, runtimes: Runtimes = BUILT_IN) -> Dag:
    """The DAG in this YAML as it runs here. Raise DagErrors with every error found."""
    draft = read_draft(text)
    errors = draft.errors + [
        error_at(draft.root, path, problem)
        for path, problem in _problems(Names(draft.dag, draft.root), runtimes)
        if not draft.doubts(path)
    ]
    if errors:
        raise DagErrors(errors)
    return draft.dag.on(runtimes)


def _problems(names: Names, runtimes: Runtimes) -> Iterator[Problem]:
    for index, job in enumerate(names.dag.jobs):
        path: Path = ("jobs", index)
        yield from _name_problems(job, path, names)
        for number, edge in enumerate(job.inputs):
            if isinstance(edge.source, JobOutputRef):
                yield from names.dangling(edge.source, (*path, "inputs", number, "from"))
        yield from _read_twice(job, path, names)
        yield from runtime_problems(job, path, names, runtimes)
        yield from update_problems(job, path, names, runtimes)
    yield from publish_problems(names)
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
