"""Fields that are right and that nothing acts on: an author shall not believe otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from trace_platform.dag.check.names import Problem
from trace_platform.dag.model.dag import Dag, Job
from trace_platform.dag.read.dag_yaml import Path

_NOT_YET = {
    "secrets": "no secret reaches the job yet: its code has to be given them by other means",
    "idle_timeout": "no worker is stopped when it is idle yet",
    "udf": "no bundle is loaded yet: a worker of your own has to know the code by other means",
}
# Of sources whose events the Dispatcher emits: they have no tasks.
_OF_TASKS = ("max_attempts", "timeout_seconds", "heartbeat_timeout_seconds")
_OF_WORKERS = ("runtime", "operator", "config")


def unused_fields(dag: Dag) -> Iterator[Problem]:
    """Each as where it stands, and what to know of it."""
    for index, job in enumerate(dag.jobs):
        path: Path = ("jobs", index)
        for field, said in _unused_of(job).items():
            yield (*path, field), said
    for name, publish in dag.publish.items():
        if publish.storage == "buffered":
            said = "its batches are taken and kept, and nothing writes them to a table yet"
            yield ("publish", name, "storage"), said


def _unused_of(job: Job) -> dict[str, str]:
    found = {field: said for field, said in _NOT_YET.items() if field in job.model_fields_set}
    if job.always_on:
        said = "a source that never ends is started again for ever, whatever this says"
        found |= dict.fromkeys(("max_attempts", "timeout_seconds"), said)
    elif job.activation == "source":
        kind = job.source.kind if job.source else "manual"
        said = f"a source of kind {kind} has no tasks, so this changes nothing"
        found |= dict.fromkeys((*_OF_TASKS, *_OF_WORKERS), said)
    given = job.model_fields_set
    return {field: said for field, said in found.items() if field in given and _says(job, field)}


def _says(job: Job, field: str) -> bool:
    """Whether there is anything: an empty list says nothing."""
    return getattr(job, field) not in (None, [], {})
