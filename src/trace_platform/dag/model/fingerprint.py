"""What a job's data depends on: its own meaning, and that of everything above it.

Equal fingerprints mean equal data. A change of the fingerprint is what makes a rebuild necessary,
and because a job's fingerprint contains those of its inputs, it reaches from the edit onward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from trace_platform.dag.model.dag import Dag, InputEdge, Job, JobOutputRef
from trace_platform.domain.digest import digest
from trace_platform.domain.sql_words import words

# Of the statements in its config the words count.
SPARK_SQL = "sql_transform"

# How and when a job runs, what people call it: none of it changes what it makes. Inputs are in the
# fingerprint by who makes them and how, outputs by how many there are.
OPERATIONAL = frozenset(
    {
        "name", "description", "activation", "source", "bootstrap", "inputs", "outputs", "secrets",
        "priority", "scaling", "backpressure", "idle_timeout", "max_attempts", "timeout_seconds",
        "heartbeat_timeout_seconds", "checks",
    }
)  # fmt: skip


def fingerprints(dag: Dag) -> dict[str, str]:
    """By job. The DAG has no cycles and no dangling references."""
    jobs = {job.name: job for job in dag.jobs}

    @cache
    def of(name: str) -> str:
        job = jobs[name]
        own = meaning(dag.effective(job))
        return digest([own, *(_input(edge, of, jobs) for edge in job.inputs)])

    for name in _downstream_last(jobs):
        of(name)
    return {name: of(name) for name in jobs}


def definition_hash(dag: Dag, job: Job) -> str:
    """Of all that a job's definition says, its inputs by what they are: another order of a job's
    outputs is another input for who reads them by name."""
    jobs = {each.name: each for each in dag.jobs}
    read = [
        (edge.source.job, jobs[edge.source.job].output_index(edge.source.output))
        if isinstance(edge.source, JobOutputRef)
        else (edge.source.dataset, None)
        for edge in job.inputs
    ]
    return digest([dag.job_hash(job), read])


def meaning(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a definition (`Dag.effective`) that decides what the job makes.

    Nothing can make a source's data anew, so its definition does not count, unless it asks to start
    from nothing (`reset_outputs`) whenever that changes.
    """
    is_source = definition["activation"] == "source"
    decides = {
        field: value
        for field, value in definition.items()
        if field not in OPERATIONAL and value is not None
    }
    if is_source and not (definition.get("bootstrap") or {}).get("reset_outputs"):
        decides = {}
    elif is_source and definition.get("source") is not None:
        decides["source"] = definition["source"]
    if definition.get("operator") == SPARK_SQL:
        decides["config"] = _without_layout(decides["config"])
    return decides | {
        "outputs": len(definition["outputs"]),
        "activation": definition["activation"],
        "execution_strategy": None
        if is_source
        else definition.get("execution_strategy") or "PerUpdate",
    }


def _without_layout(config: Mapping[str, Any]) -> dict[str, Any]:
    """Statements by their words: blanks and comments between them make nothing else."""
    found = dict(config)
    if isinstance(found.get("sql"), str):
        found["sql"] = words(found["sql"])
    if isinstance(found.get("steps"), list):
        found["steps"] = [
            {**step, "sql": words(step["sql"])} if isinstance(step.get("sql"), str) else step
            for step in found["steps"]
        ]
    return found


def _input(edge: InputEdge, of: Any, jobs: dict[str, Job]) -> list[Any]:
    source = edge.source
    if isinstance(source, JobOutputRef):
        # By name too: a job that is called otherwise has other datasets, and what they hold was
        # never given to whoever read those before.
        index = jobs[source.job].output_index(source.output)
        found: list[Any] = [source.job, of(source.job), index, edge.where]
    else:
        # Another DAG's: its rebuilds arrive as updates.
        found = [source.dataset, None, edge.where]
    return found if edge.trigger else [*found, "is only read"]


def _downstream_last(jobs: dict[str, Job]) -> Iterator[str]:
    """So that no chain of jobs is a deep recursion."""
    done: set[str] = set()
    for name in jobs:
        path = [name]
        while path:
            above = [j for j in _upstream(jobs[path[-1]]) if j not in done]
            if above:
                path.append(above[0])
            else:
                last = path.pop()
                done.add(last)
                yield last


def _upstream(job: Job) -> list[str]:
    return [e.source.job for e in job.inputs if isinstance(e.source, JobOutputRef)]
