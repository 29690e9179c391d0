"""Watches the tasks of a DAG until all of them ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.given_home import at_home
from trace_platform.cli.progress_columns import fitting
from trace_platform.domain.errors import TaskFailed, Unavailable
from trace_platform.domain.figures import count
from trace_platform.wire.control import DagStatus, JobStatus, TaskStatus

Answer = TypeVar("Answer")

_ENDED = ("Completed", "Failed", "Canceled")
_POLL_S = 0.2
# Events say that they are on their way; this is for what is emitted in between two looks.
_QUIET_POLLS = 4
# Longer than any restart of a part: watching must not give up where the platform does not.
_PATIENCE_S = 120.0
# Tasks that failed are looked for among so many of the DAG's newest failures.
_FAILURES = 1000
# Counting ever more of what is done by now would take ever longer.
_HISTORY = timedelta(days=1)


def now_of(home: Home, dag: str) -> datetime:
    """By the database's clock: this machine's may be another. Take it before starting what is to be
    followed."""
    return patiently(lambda: control_client.dag_status(home, dag)).as_of


def follow(console: Console, home: Home, dag: str, began: datetime) -> None:
    """Bars for each job of the DAG that has tasks, until all have ended. Raise TaskFailed when one
    of them failed for good since `began`."""
    status = patiently(lambda: control_client.dag_status(home, dag, began))
    # What was under way before counts whole: of 14 tasks that wait, those that end stay counted.
    since = max(min(began, status.oldest_open or began), began - _HISTORY)
    with _progress(console) as progress:
        bars: dict[str, TaskID] = {}
        quiet = 0
        while quiet < _QUIET_POLLS:
            status = patiently(lambda: control_client.dag_status(home, dag, since))
            for job in status.jobs:
                if job.counts:
                    if job.name not in bars:
                        bars[job.name] = progress.add_task(job.name, total=None, note="")
                    _show(progress, bars[job.name], job)
            quiet = quiet + 1 if _settled(status) else 0
            time.sleep(_POLL_S)
    if not bars:
        console.print("  nothing to do: there is no task that has not ended", highlight=False)
    failed = _failed(home, dag, began) if any(j.counts.get("Failed") for j in status.jobs) else []
    if failed:
        raise _failure(failed)


@contextmanager
def goes_on(words: str) -> Iterator[None]:
    """Who stops watching is told what becomes of it."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(at_home(words), err=True)
        raise


def _progress(console: Console) -> Progress:
    columns = fitting(
        console,
        TextColumn("  {task.description:<8}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[note]}[/dim]"),
    )
    return Progress(*columns, console=console)


def _show(progress: Progress, bar: TaskID, job: JobStatus) -> None:
    ended = sum(job.counts.get(status, 0) for status in _ENDED)
    said = [
        f"{job.counts[s]:,} {s.lower()}"
        for s in ("Running", "Queued", "Retrying", "Failed", "Canceled")
        if s in job.counts
    ]
    if job.counts.get("Running") and not ended and job.operator == "cryo_ingest":
        said.append("Spark starts")
    progress.update(bar, total=sum(job.counts.values()), completed=ended, note=", ".join(said))


def _settled(status: DagStatus) -> bool:
    ended = all(set(job.counts) <= set(_ENDED) for job in status.jobs)
    return ended and not status.routing


def patiently(ask: Callable[[], Answer]) -> Answer:
    """A part that is being restarted is waited for."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return ask()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def _failed(home: Home, dag: str, began: datetime) -> list[TaskStatus]:
    """What failed for good since then; what had failed before is history."""
    found = control_client.tasks(home, dag, "Failed", _FAILURES).tasks
    return [t for t in found if t.completed_at and t.completed_at >= began and not t.next_retry_at]


def _failure(failed: list[TaskStatus]) -> TaskFailed:
    task = failed[-1]
    return TaskFailed(
        f"{count(len(failed), 'task')} failed; the first: {task.job_name}"
        f" after {count(task.attempt, 'attempt')}: [{task.error_code}] {task.error_message}",
        hint=f"mend the cause, then: trace tasks retry {task.task_id}",
    )
