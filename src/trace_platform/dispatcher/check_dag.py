"""What must hold between the parts of a DAG, beyond the shape of each."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from pydantic import ValidationError

from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators import registry
from trace_platform.wire.dag import Dag, DatasetRef, Job, JobOutputRef
from trace_platform.wire.dag_yaml import DagError, DagErrors, Path, error_at, explain, read_dag


def check_dag(text: str) -> Dag:
    """The DAG in this YAML. Raise DagErrors with every error found."""
    dag, marks = read_dag(text)
    errors = [error_at(marks, path, problem) for path, problem in _problems(dag)]
    if errors:
        raise DagErrors(_once(errors))
    return dag


def _problems(dag: Dag) -> Iterator[tuple[Path, str]]:
    jobs: dict[str, Job] = {}
    for job in dag.jobs:
        jobs.setdefault(job.name, job)
    for index, job in enumerate(dag.jobs):
        if jobs[job.name] is not job:
            yield ("jobs", index, "name"), f"two jobs are called '{job.name}'"
        for number, edge in enumerate(job.inputs):
            path: Path = ("jobs", index, "inputs", number, "from")
            if isinstance(edge.source, JobOutputRef):
                yield from _dangling(edge.source, jobs, path)
        yield from _operator_problems(job, ("jobs", index))
    yield from _publish_problems(dag, jobs)
    if len(jobs) == len(dag.jobs):
        yield from _cycles(dag)


def _dangling(ref: JobOutputRef, jobs: dict[str, Job], path: Path) -> Iterator[tuple[Path, str]]:
    job = jobs.get(ref.job)
    if job is None:
        yield (*path, "job"), f"there is no job '{ref.job}'; jobs here: {', '.join(jobs)}"
    elif job.output_index(ref.output) is None:
        outputs = ", ".join(job.outputs)
        yield (*path, "output"), f"job '{ref.job}' has no output {ref.output!r}; it has: {outputs}"


def _operator_problems(job: Job, path: Path) -> Iterator[tuple[Path, str]]:
    if job.operator is None:
        return
    try:
        operator = registry.load(job.operator)
    except InvalidConfig as error:
        yield (*path, "operator"), error.message + (f"; {error.hint}" if error.hint else "")
        return
    names = operator.output_names
    if names is not None and len(job.outputs) != len(names):
        yield (*path, "outputs"), f"{job.operator} writes {len(names)} outputs: {', '.join(names)}"
    try:
        operator.Config.model_validate(job.config)
    except ValidationError as error:
        for found in error.errors():
            where = found["loc"][:-1] if found["type"] == "missing" else found["loc"]
            yield (*path, "config", *where), explain(found, operator.Config.model_fields)


def _publish_problems(dag: Dag, jobs: dict[str, Job]) -> Iterator[tuple[Path, str]]:
    names: dict[tuple[str, int | None], str] = {}
    for name, publish in dag.publish.items():
        path: Path = ("publish", name, "from")
        yield from _dangling(publish.source, jobs, path)
        if publish.source.job in jobs:
            index = jobs[publish.source.job].output_index(publish.source.output)
            other = names.setdefault((publish.source.job, index), name)
            if index is not None and other != name:
                yield path, f"this output is published as '{other}' already"


def _cycles(dag: Dag) -> Iterator[tuple[Path, str]]:
    upstream = {
        job.name: [j for e in job.inputs if (j := _producer(dag, e.source))] for job in dag.jobs
    }
    try:
        TopologicalSorter(upstream).prepare()
    except CycleError as error:
        trail = error.args[1]
        index = next(i for i, job in enumerate(dag.jobs) if job.name == trail[0])
        yield ("jobs", index, "inputs"), f"the jobs form a cycle: {' -> '.join(trail)}"


def _producer(dag: Dag, source: JobOutputRef | DatasetRef) -> str | None:
    """The job of this DAG that makes what is read, also when it is named as a dataset."""
    if isinstance(source, JobOutputRef):
        return source.job
    published = dag.publish.get(source.dataset)
    return published.source.job if published else None


def _once(errors: list[DagError]) -> list[DagError]:
    return list(dict.fromkeys(errors))
