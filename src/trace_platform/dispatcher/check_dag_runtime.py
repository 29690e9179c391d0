"""Whether a job's runtime can run it, and its operator understands its config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trace_platform.dispatcher.check_dag_names import Names, Problem
from trace_platform.dispatcher.operators import registry as in_process
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.runtimes import Runtime, Runtimes
from trace_platform.operators import registry
from trace_platform.wire.dag import Dag, Job
from trace_platform.wire.dag_explain import explain, without_echoes
from trace_platform.wire.dag_yaml import Path, Place

if TYPE_CHECKING:
    from trace_platform.dispatcher.operators.contract import EventOperator
    from trace_platform.operators.contract import Operator


def runtime_problems(job: Job, path: Path, names: Names, runtimes: Runtimes) -> Iterator[Problem]:
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
    if job.always_on and runtime.kind != "queue":
        said = f"an always_on source runs without end, which {runtime.name} cannot"
        yield (*path, "runtime"), f"{said}: use {_queues(runtimes)}"
    yield from _timeout_problems(names.dag, job, path, runtime)
    if runtime.kind == "dispatcher":
        yield from _in_process_problems(job, path)
    problems = list(_operator_problems(job, path, runtime, names.root))
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
    for said in operator.problems(len(datasets), operator.Config.model_validate(job.config)):
        yield (*path, "config"), said


def _operator_problems(job: Job, path: Path, runtime: Runtime, root: Place) -> Iterator[Problem]:
    if job.operator is None:
        return
    try:
        operator = _load(job.operator, runtime)
    except InvalidConfig as error:
        yield (*path, "operator"), _said(error)
        return
    if operator is not None:
        yield from _outputs_problems(job, operator, path)
        yield from _config_problems(job, operator, path, root)


def operator_of(job: Job, runtimes: Runtimes) -> type[Operator | EventOperator] | None:
    """The class of the job's operator; None where it has none, or nobody here knows it."""
    if job.operator is None or job.runtime is None:
        return None
    try:
        return _load(job.operator, runtimes.get(job.runtime))
    except InvalidConfig:
        return None


def _load(name: str, runtime: Runtime) -> type[Operator | EventOperator] | None:
    """The operator's class; None where only the runtime's own workers know their operators."""
    if runtime.name == "ecs_platform":
        return registry.load(name)
    return in_process.load(name) if runtime.kind == "dispatcher" else None


def _outputs_problems(
    job: Job, operator: type[Operator | EventOperator], path: Path
) -> Iterator[Problem]:
    expected = _expected_outputs(job, operator)
    if expected is not None and job.outputs and len(job.outputs) != len(expected):
        count = "1 output" if len(expected) == 1 else f"{len(expected)} outputs"
        said = f"{job.operator} writes {count}: {', '.join(expected)}"
        yield (*path, "outputs"), f"{said} (found {len(job.outputs)})"


def _expected_outputs(job: Job, operator: type[Operator | EventOperator]) -> tuple[str, ...] | None:
    """As the config says where it decides; a wrong config is reported by itself."""
    try:
        said = operator.Config.model_validate(job.config).outputs()
    except ValidationError:
        said = None
    return operator.output_names if said is None else said


def _config_problems(
    job: Job, operator: type[Operator | EventOperator], path: Path, root: Place
) -> Iterator[Problem]:
    try:
        operator.Config.model_validate(job.config)
    except ValidationError as error:
        for found in without_echoes(error.errors(include_url=False)):
            where = (*path, "config", *found["loc"])
            written = root.nearest(where).written
            said = explain(found, operator.Config.model_fields, path=where, written=written)
            yield where[:-1] if found["type"] == "missing" else where, said


def _said(error: InvalidConfig) -> str:
    return error.message + (f"; {error.hint}" if error.hint else "")
