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

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.progress_columns import fitting
from trace_platform.domain.errors import TaskFailed, Unavailable
from trace_platform.domain.figures import count
from trace_platform.wire.control import DagStatus, JobStatus

Answer = TypeVar("Answer")

_POLL_S = 0.2
# Events say that they are on their way; this is for what is emitted in between two looks.
_QUIET_POLLS = 4
# What was started just before watching began is watched too; what is older is history.
_MARGIN = timedelta(seconds=5)
# Longer than any restart of a part: watching must not give up where the platform does not.
_PATIENCE_S = 120.0


def follow(console: Console, home: Home, dag: str) -> None:
    """Bars for each job of the DAG. Raise TaskFailed when a task failed for good."""
    # By the database's clock: this machine's may be another.
    since = patiently(lambda: control_client.dag_status(home, dag)).as_of - _MARGIN
    with _progress(console) as progress:
        bars: dict[str, TaskID] = {}
        quiet = 0
        while quiet < _QUIET_POLLS:
            status = patiently(lambda: control_client.dag_status(home, dag, since))
            for job in status.jobs:
                if job.operator is not None:
                    if job.name not in bars:
                        bars[job.name] = progress.add_task(job.name, total=None, note="")
                    _show(progress, bars[job.name], job)
            if any(job.counts.get("Failed") for job in status.jobs):
                raise _failure(home, dag, since)
            quiet = quiet + 1 if _settled(status) else 0
            time.sleep(_POLL_S)


@contextmanager
def goes_on(words: str) -> Iterator[None]:
    """Who stops watching is told what becomes of it."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(words, err=True)
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
    done = job.counts.get("Completed", 0)
    waiting = [
        f"{job.counts[s]} {s.lower()}" for s in ("Running", "Queued", "Retrying") if s in job.counts
    ]
    if job.counts.get("Running") and not done and job.operator == "cryo_ingest":
        waiting.append("Spark starts")
    total = sum(job.counts.values()) or None
    progress.update(bar, total=total, completed=done, note=", ".join(waiting))


def _settled(status: DagStatus) -> bool:
    ended = all(set(job.counts) <= {"Completed", "Canceled"} for job in status.jobs)
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


def _failure(home: Home, dag: str, since: datetime) -> TaskFailed:
    found = control_client.tasks(home, dag, "Failed").tasks
    failed = [t for t in found if t.created_at >= since and not t.next_retry_at]
    if not failed:
        return TaskFailed("a task failed, and was taken up again since", hint="trace tasks list")
    task = failed[0]
    return TaskFailed(
        f"{count(len(failed), 'task')} failed; the first: {task.job_name}"
        f" after {count(task.attempt, 'attempt')}: [{task.error_code}] {task.error_message}",
        hint=f"mend the cause, then: trace tasks retry {task.task_id}",
    )
