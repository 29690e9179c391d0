"""Whether what wakes a job is what its operator accepts: kinds of updates, and how many at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trace_platform.dag.check.names import Names, Problem
from trace_platform.dag.check.operators import CheckedOperators
from trace_platform.dag.model.dag import Job
from trace_platform.dag.model.order_jobs import order_jobs
from trace_platform.dag.read.dag_yaml import Path
from trace_platform.domain.runtimes import Runtimes
from trace_platform.operators.accepts import (
    ANY,
    PARTITION,
    RANGE,
    TICK,
    UNDECLARED,
    Accepts,
    Update,
    Updates,
    several,
)

# By which input a job of the DAG wakes another, and with which updates.
Waking = tuple[int, Job, Updates]

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


def update_problems(
    job: Job,
    path: Path,
    names: Names,
    runtimes: Runtimes,
    operators: CheckedOperators,
    emitted: Mapping[str, Updates],
) -> Iterator[Problem]:
    """`emitted` are the updates of each job's outputs."""
    accepts = _accepted(job, operators)
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
        woken = [(n, each, emitted.get(each.name, ANY)) for n, each in waking(job, names)]
        yield from _several_problems(job, path, accepts)
        yield from _kind_problems(job, path, accepts, woken, runtimes)
        if not accepts.mixed:
            yield from _mixed_problems(job, path, woken)


def _in_dispatcher(job: Job, runtimes: Runtimes) -> bool:
    return job.runtime in {each.name for each in runtimes if each.kind == "dispatcher"}


def _accepted(job: Job, operators: CheckedOperators) -> Accepts:
    judged = operators.of(job)
    return UNDECLARED if judged is None else judged.accepts


def _several_problems(job: Job, path: Path, accepts: Accepts) -> Iterator[Problem]:
    if accepts.several:
        return
    wrong = f"gives a task several updates, and {job.operator} takes {accepts}"
    if job.strategy == "Bulk":
        yield (*path, "execution_strategy"), f"Bulk {wrong}: use PerUpdate or PerPartition"
    if job.backpressure is not None and job.backpressure.mode == "coalesce":
        yield (*path, "backpressure", "mode"), f"coalesce {wrong}: use pause or drop_oldest"


def _kind_problems(
    job: Job, path: Path, accepts: Accepts, woken: Sequence[Waking], runtimes: Runtimes
) -> Iterator[Problem]:
    # Of a job in the Dispatcher, the strategy is wrong whatever it reads.
    per_partition = job.strategy == "PerPartition" and not _in_dispatcher(job, runtimes)
    for number, producer, updates in woken:
        emits = f"job '{producer.name}' emits {several(updates)}"
        if updates.isdisjoint(accepts.updates):
            said = f"{emits}, and {job.operator} takes {accepts}: {_instead(accepts.updates)}"
            yield (*path, "inputs", number, "from"), said
        elif per_partition and updates == TICK:
            cure = "PerUpdate or Bulk" if accepts.several else "PerUpdate"
            said = f"PerPartition makes no task of a tick, and {emits}: use {cure}"
            yield (*path, "execution_strategy"), said


def _mixed_problems(job: Job, path: Path, woken: Sequence[Waking]) -> Iterator[Problem]:
    together = job.strategy == "Bulk" or (
        job.backpressure is not None and job.backpressure.mode == "coalesce"
    )
    known = [
        (kind, number, producer, updates)
        for number, producer, updates in woken
        if (kind := _kind(updates, together=together)) is not None
    ]
    for kind, number, producer, updates in known[1:]:
        first, other, _, others = known[0]
        if kind != first:
            said = f"job '{producer.name}' emits {several(updates)}, and inputs[{other}] wakes this"
            cure = "make a job for each, or only read this one, with trigger: false"
            yield (*path, "inputs", number, "from"), f"{said} job by {several(others)}: {cure}"


def _kind(updates: Updates, *, together: bool) -> str | None:
    """What kind of answer these updates have; None: only a run would tell. One task that has both
    blocks and partitions of another kind has no answer for both."""
    if updates == TICK:
        return "tick"
    if not together:
        return "part" if updates <= PARTITION else None
    if updates == RANGE:
        return "range"
    return "partition" if updates == PARTITION - RANGE else None


def waking(job: Job, names: Names) -> Iterator[tuple[int, Job]]:
    """The jobs of this DAG whose updates wake the job, and by which of its inputs."""
    for number, edge in enumerate(job.inputs):
        for ref in names.producers(edge.source) if edge.trigger else ():
            if ref.job in names.jobs:
                yield number, names.jobs[ref.job]


def _instead(updates: Updates) -> str:
    examples = [said for kind, said in _EXAMPLES.items() if kind in updates]
    return f"read a job that emits {several(updates)}, such as {examples[0]}"


def emitted_updates(names: Names, operators: CheckedOperators) -> dict[str, Updates]:
    """By job: the updates of its outputs; any, where only a run would tell."""
    found: dict[str, Updates] = {}
    for job in order_jobs(names):
        found[job.name] = _emitted(job, names, operators, found)
    return found


def _emitted(
    job: Job, names: Names, operators: CheckedOperators, above: Mapping[str, Updates]
) -> Updates:
    if job.source is not None and job.source.kind in _EMITTED:
        return _EMITTED[job.source.kind]
    judged = operators.of(job)
    if judged is None:
        return ANY
    if judged.emits is not None:
        return judged.emits
    woken = _woken_by(job, names, above)
    if judged.commits_ticks and "tick" in woken:
        return woken - TICK | (PARTITION - RANGE)
    return woken


def _woken_by(job: Job, names: Names, above: Mapping[str, Updates]) -> Updates:
    """All that may wake the job; any, where a source or a dataset of another DAG does."""
    there = [edge for edge in job.inputs if edge.trigger]
    known = list(waking(job, names))
    if not there or len({number for number, _ in known}) < len(there):
        return ANY
    return frozenset().union(*(above.get(producer.name, ANY) for _, producer in known))
