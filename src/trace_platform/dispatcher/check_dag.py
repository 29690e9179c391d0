"""What must hold between the parts of a DAG, beyond the shape of each."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trace_platform.dispatcher.operators import registry as in_process
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.runtimes import Runtime, Runtimes
from trace_platform.operators import registry
from trace_platform.wire.dag import Dag, DatasetRef, Job, JobOutputRef
from trace_platform.wire.dag_yaml import DagError, DagErrors, Path, error_at, explain, read_dag

if TYPE_CHECKING:
    from trace_platform.dispatcher.operators.contract import EventOperator
    from trace_platform.operators.contract import Operator

BUILT_IN = Runtimes.default()

Problem = tuple[Path, str]


def check_dag(text: str, runtimes: Runtimes = BUILT_IN) -> Dag:
    """The DAG in this YAML as it runs here. Raise DagErrors with every error found."""
    dag, marks = read_dag(text)
    errors = [error_at(marks, path, problem) for path, problem in _problems(dag, runtimes)]
    if errors:
        raise DagErrors(_once(errors))
    return dag.on(runtimes)


def _problems(dag: Dag, runtimes: Runtimes) -> Iterator[Problem]:
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
        yield from _read_twice(dag, job, ("jobs", index), jobs)
        yield from _runtime_problems(dag, job, ("jobs", index), runtimes)
    yield from _publish_problems(dag, jobs)
    if len(jobs) == len(dag.jobs):
        yield from _cycles(dag)


def _dangling(ref: JobOutputRef, jobs: dict[str, Job], path: Path) -> Iterator[Problem]:
    job = jobs.get(ref.job)
    if job is None:
        yield (*path, "job"), f"there is no job '{ref.job}'; jobs here: {', '.join(jobs)}"
    elif job.output_index(ref.output) is None:
        outputs = ", ".join(job.outputs)
        yield (*path, "output"), f"job '{ref.job}' has no output {ref.output!r}; it has: {outputs}"


def _read_twice(dag: Dag, job: Job, path: Path, jobs: dict[str, Job]) -> Iterator[Problem]:
    """An event makes one task, with the filter of one edge: rows of the other would be lost."""
    first: dict[object, int] = {}
    for number, edge in enumerate(job.inputs):
        other = first.setdefault(_read(dag, edge.source, jobs), number)
        if other != number and (edge.where or job.inputs[other].where):
            said = f"inputs[{other}] reads this dataset too: one filter has to cover both"
            yield (*path, "inputs", number), said


def _read(dag: Dag, source: JobOutputRef | DatasetRef, jobs: dict[str, Job]) -> object:
    """The same for the same output, however it is named."""
    if isinstance(source, DatasetRef):
        if source.dataset not in dag.publish:
            return source.dataset
        source = dag.publish[source.dataset].source
    index = jobs[source.job].output_index(source.output) if source.job in jobs else None
    return source.job, source.output if index is None else index


def _runtime_problems(dag: Dag, job: Job, path: Path, runtimes: Runtimes) -> Iterator[Problem]:
    if job.runtime is None:
        return
    try:
        runtime = runtimes.get(job.runtime)
    except InvalidConfig as error:
        yield (*path, "runtime"), _said(error)
        return
    if runtime.kind == "lambda" and runtime.url is None:
        cure = f"set [runtimes.{runtime.name}] url"
        yield (*path, "runtime"), f"runtime {runtime.name} has no invoker here: {cure}"
    yield from _timeout_problems(dag, job, path, runtime)
    if runtime.kind == "dispatcher":
        yield from _in_process_problems(job, path)
    problems = list(_operator_problems(job, path, runtime))
    if runtime.kind == "dispatcher" and not problems:
        problems += _event_operator_problems(dag, job, path)
    yield from problems


def _timeout_problems(dag: Dag, job: Job, path: Path, runtime: Runtime) -> Iterator[Problem]:
    """Only what the author wrote: a runtime's own default is within its limit."""
    asked, where = job.timeout_seconds, (*path, "timeout_seconds")
    if asked is None and "timeout_seconds" in dag.defaults.model_fields_set:
        asked, where = dag.defaults.timeout_seconds, ("defaults", "timeout_seconds")
    if asked is not None and asked > runtime.max_timeout_seconds:
        most = f"the {runtime.max_timeout_seconds:g} s that runtime {runtime.name} allows"
        yield where, f"{asked:g} s for job '{job.name}' is more than {most}"


def _in_process_problems(job: Job, path: Path) -> Iterator[Problem]:
    if job.scaling is not None:
        yield (*path, "scaling"), "a job with runtime: dispatcher runs in order and has no scaling"
    if job.backpressure is not None and job.backpressure.mode == "coalesce":
        wrong = "a job with runtime: dispatcher sees every event and cannot coalesce"
        yield (*path, "backpressure", "mode"), f"{wrong}: use pause or drop_oldest"
    if job.strategy == "PerPartition":
        wrong = "a job with runtime: dispatcher sees every event of a partition"
        yield (*path, "execution_strategy"), f"{wrong}: use PerUpdate or Bulk"
    for number, edge in enumerate(job.inputs):
        if edge.where:
            wrong = "a job with runtime: dispatcher reads no rows to filter"
            yield (*path, "inputs", number, "where"), f"{wrong}: filter where they are read"


def _event_operator_problems(dag: Dag, job: Job, path: Path) -> Iterator[Problem]:
    operator = in_process.load(job.operator or "")
    jobs = {each.name: each for each in dag.jobs}
    datasets = {_read(dag, edge.source, jobs) for edge in job.inputs}
    for said in operator.problems(len(datasets), operator.Config.model_validate(job.config)):
        yield (*path, "config"), said


def _operator_problems(job: Job, path: Path, runtime: Runtime) -> Iterator[Problem]:
    if job.operator is None:
        return
    try:
        operator = _load(job.operator, runtime)
    except InvalidConfig as error:
        yield (*path, "operator"), _said(error)
        return
    if operator is not None:
        yield from _outputs_and_config(job, operator, path)


def _load(name: str, runtime: Runtime) -> type[Operator | EventOperator] | None:
    """The operator's class; None where only the runtime's own workers know their operators."""
    if runtime.name == "ecs_platform":
        return registry.load(name)
    return in_process.load(name) if runtime.kind == "dispatcher" else None


def _outputs_and_config(
    job: Job, operator: type[Operator | EventOperator], path: Path
) -> Iterator[Problem]:
    names = operator.output_names
    if names is not None and len(job.outputs) != len(names):
        yield (*path, "outputs"), f"{job.operator} writes {len(names)} outputs: {', '.join(names)}"
    try:
        operator.Config.model_validate(job.config)
    except ValidationError as error:
        for found in error.errors():
            where = found["loc"][:-1] if found["type"] == "missing" else found["loc"]
            yield (*path, "config", *where), explain(found, operator.Config.model_fields)


def _said(error: InvalidConfig) -> str:
    return error.message + (f"; {error.hint}" if error.hint else "")


def _publish_problems(dag: Dag, jobs: dict[str, Job]) -> Iterator[Problem]:
    names: dict[tuple[str, int | None], str] = {}
    for name, publish in dag.publish.items():
        path: Path = ("publish", name, "from")
        yield from _dangling(publish.source, jobs, path)
        if publish.source.job in jobs:
            index = jobs[publish.source.job].output_index(publish.source.output)
            other = names.setdefault((publish.source.job, index), name)
            if index is not None and other != name:
                yield path, f"this output is published as '{other}' already"


def _cycles(dag: Dag) -> Iterator[Problem]:
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
