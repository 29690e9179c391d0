"""Whether what wakes a job is what its operator accepts: kinds of updates, and how many at once."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from trace_platform.dispatcher.check_dag_names import Names, Problem
from trace_platform.dispatcher.check_dag_runtime import operator_of
from trace_platform.domain.runtimes import Runtimes
from trace_platform.operators.accepts import (
    ANY,
    RANGE,
    TICK,
    UNDECLARED,
    Accepts,
    Update,
    Updates,
    several,
)
from trace_platform.wire.dag import Job
from trace_platform.wire.dag_yaml import Path

# What the Dispatcher itself emits for a source of this kind.
_EMITTED: dict[str, Updates] = {
    "manual": RANGE,
    "cron": TICK,
    "webhook": frozenset({"partition"}),
}
# Where updates of this kind come from.
_EXAMPLES: dict[Update, str] = {
    "range": "a manual source, a block_follower or a range_splitter",
    "partition": "a webhook source",
    "tick": "a cron source or a ticker",
}


def update_problems(job: Job, path: Path, names: Names, runtimes: Runtimes) -> Iterator[Problem]:
    accepts = _accepted(job, runtimes)
    if job.activation == "source":
        # A runtime that runs no source has said so.
        if job.always_on and not accepts.source and not _in_dispatcher(job, runtimes):
            said = f"{job.operator} is no source: it is woken by {accepts}"
            yield (*path, "operator"), f"{said}; use activation: reactive, and give it inputs"
    elif not accepts.updates:
        said = f"{job.operator} is a source, which no input wakes"
        cure = "use activation: source and source: { kind: always_on }, without inputs"
        yield (*path, "operator"), f"{said}: {cure}"
    else:
        yield from _several_problems(job, path, accepts)
        yield from _kind_problems(job, path, accepts, names, runtimes)


def _in_dispatcher(job: Job, runtimes: Runtimes) -> bool:
    return operator_of(job, runtimes) is not None and (
        runtimes.get(job.runtime or "").kind == "dispatcher"
    )


def _accepted(job: Job, runtimes: Runtimes) -> Accepts:
    """As the config says where it decides; a wrong config is reported by itself."""
    operator = operator_of(job, runtimes)
    if operator is None:
        return UNDECLARED
    try:
        said = operator.Config.model_validate(job.config).accepts()
    except ValidationError:
        said = None
    declared: Accepts = getattr(operator, "accepts", UNDECLARED)
    return declared if said is None else said


def _several_problems(job: Job, path: Path, accepts: Accepts) -> Iterator[Problem]:
    if accepts.several:
        return
    wrong = f"gives a task several updates, and {job.operator} takes {accepts}"
    if job.strategy == "Bulk":
        yield (*path, "execution_strategy"), f"Bulk {wrong}: use PerUpdate or PerPartition"
    if job.backpressure is not None and job.backpressure.mode == "coalesce":
        yield (*path, "backpressure", "mode"), f"coalesce {wrong}: use pause or drop_oldest"


def _kind_problems(
    job: Job, path: Path, accepts: Accepts, names: Names, runtimes: Runtimes
) -> Iterator[Problem]:
    # Of a job in the Dispatcher, the strategy is wrong whatever it reads.
    per_partition = job.strategy == "PerPartition" and not _in_dispatcher(job, runtimes)
    for number, producer in _waking(job, names):
        emitted = _emitted(producer, runtimes)
        emits = f"job '{producer.name}' emits {several(emitted)}"
        if emitted.isdisjoint(accepts.updates):
            said = f"{emits}, and {job.operator} takes {accepts}: {_instead(accepts.updates)}"
            yield (*path, "inputs", number, "from"), said
        elif per_partition and emitted == TICK:
            cure = "PerUpdate or Bulk" if accepts.several else "PerUpdate"
            said = f"PerPartition makes no task of a tick, and {emits}: use {cure}"
            yield (*path, "execution_strategy"), said


def _waking(job: Job, names: Names) -> Iterator[tuple[int, Job]]:
    """The jobs of this DAG whose updates wake the job, and by which of its inputs."""
    for number, edge in enumerate(job.inputs):
        for ref in names.producers(edge.source) if edge.trigger else ():
            if ref.job in names.jobs:
                yield number, names.jobs[ref.job]


def _instead(updates: Updates) -> str:
    examples = [said for kind, said in _EXAMPLES.items() if kind in updates]
    return f"read a job that emits {several(updates)}, such as {examples[0]}"


def _emitted(producer: Job, runtimes: Runtimes) -> Updates:
    """The updates of a job's outputs; any, where only a run would tell."""
    if producer.source is not None and producer.source.kind in _EMITTED:
        return _EMITTED[producer.source.kind]
    operator = operator_of(producer, runtimes)
    emits: Updates | None = getattr(operator, "emits", None)
    return ANY if emits is None else emits
