"""Whether a job's runtime can run it, and its operator understands its config."""

from __future__ import annotations

from collections.abc import Iterator

from trace_platform.dag.check.names import Names, Problem
from trace_platform.dag.check.operators import CheckedOperators, said
from trace_platform.dag.event_operators import registry as in_process
from trace_platform.dag.model.dag import Dag, Job
from trace_platform.dag.read.dag_yaml import Path, Place
from trace_platform.dag.read.explain import explain, without_echoes
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.runtimes import Runtime, Runtimes
from trace_platform.operators.facts import Judged


def runtime_problems(
    job: Job, path: Path, names: Names, runtimes: Runtimes, operators: CheckedOperators
) -> Iterator[Problem]:
    if job.runtime is None:
        return
    try:
        runtime = runtimes.get(job.runtime)
    except InvalidConfig as error:
        yield (*path, "runtime"), said(error)
        return
    if runtime.kind == "lambda" and runtime.url is None:
        cure = f"set [runtimes.{runtime.name}] url"
        yield (*path, "runtime"), f"runtime {runtime.name} has no invoker here: {cure}"
    if job.always_on and runtime.kind != "queue":
        cannot = f"an always_on source runs without end, which {runtime.name} cannot"
        yield (*path, "runtime"), f"{cannot}: use {_queues(runtimes)}"
    yield from _timeout_problems(names.dag, job, path, runtime)
    if runtime.kind == "dispatcher":
        yield from _in_process_problems(job, path)
    problems = list(_operator_problems(job, path, operators, names.root))
    if runtime.kind == "dispatcher" and job.operator and not problems:
        problems += _event_operator_problems(names, job, path)
    yield from problems


def _queues(runtimes: Runtimes) -> str:
    return " or ".join(each.name for each in runtimes if each.enabled and each.kind == "queue")


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
        if not edge.trigger:
            wrong = "a job with runtime: dispatcher reads no rows"
            yield (*path, "inputs", number, "trigger"), f"{wrong}: leave this input out"


def _event_operator_problems(names: Names, job: Job, path: Path) -> Iterator[Problem]:
    operator = in_process.load(job.operator or "")
    datasets = {names.read(edge.source) for edge in job.inputs}
    for found in operator.problems(len(datasets), operator.Config.model_validate(job.config)):
        yield (*path, "config"), found


def _operator_problems(
    job: Job, path: Path, operators: CheckedOperators, root: Place
) -> Iterator[Problem]:
    problem = operators.problem(job)
    if problem is not None:
        yield (*path, "operator"), problem
    judged = operators.of(job)
    if judged is not None:
        yield from _outputs_problems(job, judged, path)
        yield from _config_problems(judged, path, root)


def _outputs_problems(job: Job, judged: Judged, path: Path) -> Iterator[Problem]:
    expected = judged.outputs
    if expected is not None and job.outputs and len(job.outputs) != len(expected):
        number = "1 output" if len(expected) == 1 else f"{len(expected)} outputs"
        writes = f"{job.operator} writes {number}: {', '.join(expected)}"
        yield (*path, "outputs"), f"{writes} (found {len(job.outputs)})"


def _config_problems(judged: Judged, path: Path, root: Place) -> Iterator[Problem]:
    found = [each | {"loc": tuple(each["loc"])} for each in judged.config_errors]
    for error in without_echoes(found):
        where = (*path, "config", *error["loc"])
        written = root.nearest(where).written
        explained = explain(error, error["known"], path=where, written=written)
        yield where[:-1] if error["type"] == "missing" else where, explained
