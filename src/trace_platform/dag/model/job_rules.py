"""What must hold between the fields of one job. Read from what was written, right or wrong, so
that one wrong field hides no other mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import PydanticCustomError

from trace_platform.dag.model.fields import Path, needed

Problem = tuple[Path, str | PydanticCustomError]

_NOT_IN_SOURCES = {
    "inputs": "a source job has no inputs: remove them, or use activation: reactive",
    "execution_strategy": "a source job has no tasks, so no execution_strategy: remove it",
    "scaling": "a source job has no tasks, so no scaling: remove it",
    "backpressure": "a source job has no tasks, so no backpressure: remove it",
    "idle_timeout": "a source job is never idle: remove it, or use activation: reactive",
}
_NOT_IN_REACTIVE = {
    "source": "only a job with activation: source has 'source': remove it, "
    "or use activation: source",
    "bootstrap": "only a job with activation: source has 'bootstrap': remove it",
}
_NEEDED_BY_REACTIVE = {
    "runtime": "where it runs, such as runtime: ecs_platform",
    "operator": "what does the work, such as operator: range_splitter",
    "inputs": "what wakes it, such as inputs: [{ from: { job: NAME } }]",
}
_NEEDED_BY_ALWAYS_ON = {
    "runtime": _NEEDED_BY_REACTIVE["runtime"],
    "operator": "what does the work, such as operator: block_follower",
}
# Kinds whose events the Dispatcher emits: no worker is involved.
_EMITTED = ("cron", "webhook")


def job_problems(job: Mapping[str, Any]) -> Iterator[Problem]:
    given = {field for field, value in job.items() if value not in (None, [], {})}
    if job.get("activation") == "source":
        yield from _source_problems(job, given)
    elif job.get("activation") == "reactive":
        yield from _reactive_problems(given)
        yield from _trigger_problems(job)
    yield from _udf_problems(job, given)
    yield from _append_problems(job, given)


def _source_problems(job: Mapping[str, Any], given: set[str]) -> Iterator[Problem]:
    if job.get("source") is None:
        said = "a source job needs 'source', such as source: { kind: manual }"
        yield (), needed("source", said)
    for field, said in _NOT_IN_SOURCES.items():
        if field in given:
            yield (field,), said
    source = job.get("source")
    kind = source.get("kind") if isinstance(source, dict) else None
    if kind == "always_on":
        yield from _missing("an always_on source", _NEEDED_BY_ALWAYS_ON, given)
    if kind in _EMITTED:
        for field in ("runtime", "operator", "config", "secrets"):
            if field in given:
                said = f"the dispatcher emits this source's events itself, so no {field}"
                yield (field,), f"{said}: remove it, or give it to a reactive job"


def _reactive_problems(given: set[str]) -> Iterator[Problem]:
    yield from _missing("a reactive job", _NEEDED_BY_REACTIVE, given)
    for field, said in _NOT_IN_REACTIVE.items():
        if field in given:
            yield (field,), said


def _trigger_problems(job: Mapping[str, Any]) -> Iterator[Problem]:
    inputs = job.get("inputs")
    edges = inputs if isinstance(inputs, list) else []
    if edges and all(isinstance(edge, dict) and edge.get("trigger") is False for edge in edges):
        said = "none of them wakes the job: leave trigger: false out of at least one"
        yield ("inputs",), said


def _missing(who: str, wanted: dict[str, str], given: set[str]) -> Iterator[Problem]:
    for field, said in wanted.items():
        if field not in given:
            yield (), needed(field, f"{who} needs '{field}': {said}")


def _udf_problems(job: Mapping[str, Any], given: set[str]) -> Iterator[Problem]:
    if job.get("operator") == "udf" and "udf" not in given:
        example = 'udf: { bundle: "sha256:...", handler: module.function }'
        yield (), needed("udf", f"operator: udf needs {example}")
    if "udf" in given and job.get("operator") != "udf":
        yield ("udf",), "only a job with operator: udf has 'udf': remove it, or use operator: udf"


def _append_problems(job: Mapping[str, Any], given: set[str]) -> Iterator[Problem]:
    if job.get("update_strategy") == "append":
        if "unique_key" not in given:
            said = "the columns that tell one row from another, such as unique_key: [block_hash]"
            yield (), needed("unique_key", f"update_strategy: append needs 'unique_key': {said}")
    elif "unique_key" in given and job.get("update_strategy") in (None, "replace"):
        yield ("unique_key",), "goes with update_strategy: append alone: add that, or remove it"
