"""`trace tasks`: what runs, what failed and why, and what it said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.markup import escape

from trace_platform.app import control_client, dataset_client
from trace_platform.app.home import Home
from trace_platform.cli import log_line
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption, group
from trace_platform.cli.table import short_id, show_table
from trace_platform.cli.words import clock, printable, scope_of, seconds, wide_console
from trace_platform.wire.control import AttemptStatus, TaskDetail, TaskStatus

tasks = group("Show tasks and their logs, cancel or retry one.")
Task = Annotated[
    str, typer.Argument(help="The task's id, or 8 characters or more of its end or start.")
]

# Of a log line, shown in a place of their own.
_OWN_PLACE = {"timestamp", "level", "event", "exception", "traceback"}


@tasks.command("list")
def list_tasks(
    dag: Annotated[str | None, typer.Argument(help="Only of this DAG.")] = None,
    job: Annotated[str | None, typer.Option(help="Only of this job.")] = None,
    status: Annotated[
        str | None,
        typer.Option(help="Only Queued, Running, Completed, Failed or Canceled ones."),
    ] = None,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """The newest tasks first, with the error of those that failed."""
    found = control_client.tasks(Home.at(home), dag, status, limit, job)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.tasks:
        console.print("no tasks")
        return
    show_table(
        console,
        ("task", "job", "input", "status", "attempt"),
        [_cells(console, task) for task in found.tasks],
        right=("attempt",),
        notes=[printable(_error(task) or task.note or "") for task in found.tasks],
    )


@tasks.command()
def show(task: Task, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show a task with its inputs, outputs, limits and all its attempts."""
    place, task_id = _found(task, home)
    found = control_client.task(place, task_id)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    datasets = dataset_client.datasets(place, everything=True).datasets
    names = {str(each.dataset_uuid): f"{each.producer}.{each.output_index}" for each in datasets}
    for name, value in _facts(found, names):
        typer.echo(f"{name:<9} {printable(value)}")
    typer.echo()
    if found.attempts:
        _show_history(found.attempts)
    else:
        typer.echo(f"it has not started yet; trace why {found.task_id} says what it waits for")


@tasks.command()
def logs(
    task: Task,
    attempt: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=2**31 - 1, help="Default: the newest.")
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what an attempt of a task logged, oldest first."""
    found = control_client.task_log(*_found(task, home), attempt)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    if not found.lines:
        typer.echo(f"attempt {found.attempt} logged nothing")
    for line in found.lines:
        typer.echo(_log_line(line))


@tasks.command()
def cancel(task: Task, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Cancel a task: at once when it waits, with its next heartbeat when it runs."""
    place, task_id = _found(task, home)
    answer = control_client.cancel(place, task_id)
    if as_json:
        typer.echo(answer.model_dump_json())
    elif answer.status == "Running":
        typer.echo(f"{task_id} is told to stop with its next heartbeat")
    else:
        typer.echo(f"{task_id} is canceled")


@tasks.command()
def retry(task: Task, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Give a task that failed or was canceled all its attempts again."""
    place, task_id = _found(task, home)
    answer = control_client.retry(place, task_id)
    typer.echo(answer.model_dump_json() if as_json else f"{task_id} is queued again")


def _found(task: str, home: Path | None) -> tuple[Home, UUID]:
    place = Home.at(home)
    return place, control_client.find_task(place, task)


def _cells(console: Console, task: TaskStatus) -> tuple[str, ...]:
    scope = scope_of(task.inputs[0]) if task.inputs else ""
    id, job = short_id(console, task.task_id), f"{task.dag_name}.{task.job_name}"
    return id, job, escape(printable(scope)), _status(task), str(task.attempt)


def _status(task: TaskStatus) -> str:
    if task.next_retry_at:
        return f"{task.status}, retrying"
    return f"{task.status}, deferred" if task.pending_backpressure else task.status


def _error(ended: TaskStatus | AttemptStatus) -> str:
    return f"[{ended.error_code}] {ended.error_message}" if ended.error_code else ""


def _facts(task: TaskDetail, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    limits = task.limits
    yield "task", str(task.task_id)
    yield "job", f"{task.dag_name}.{task.job_name} ({limits.operator} on {limits.runtime})"
    yield "status", _status(task)
    yield "priority", limits.priority
    yield "made", f"{clock(task.created_at)} UTC"
    if task.started_at:
        yield "started", f"{clock(task.started_at)} UTC, by {task.worker_id}"
    if task.progress:
        yield "progress", f"{task.progress['done']:,} of {task.progress['total']:,}"
    if task.lease_expires_at:
        yield "lease", f"until {clock(task.lease_expires_at)} UTC"
    if task.cancel_requested_at:
        yield "cancel", f"asked for at {clock(task.cancel_requested_at)} UTC"
    if task.next_retry_at:
        yield "retry", f"at {clock(task.next_retry_at)} UTC"
    if task.completed_at:
        yield "ended", f"{clock(task.completed_at)} UTC"
    if task.error_code:
        yield "error", _error(task)
    if task.note:
        yield "note", task.note
    counted = task.attempt - task.forgiven
    yield "attempts", f"{counted} of {limits.max_attempts}{_forgiven(task.forgiven)}"
    yield "limits", ", ".join(_limits(task))
    for given in task.inputs:
        yield "input", f"{scope_of(given)} of {_named(given['dataset_uuid'], names)}"
    for output in task.outputs:
        yield "output", f"{_named(output.dataset_uuid, names)} ({output.name})"


def _named(dataset_uuid: object, names: dict[str, str]) -> str:
    """As DAG.JOB.OUTPUT; by its uuid when no version that is deployed has it."""
    return names.get(str(dataset_uuid), str(dataset_uuid))


def _forgiven(count: int) -> str:
    return f", and {count} that do not count" if count else ""


def _limits(task: TaskDetail) -> Iterator[str]:
    limits = task.limits
    yield f"time-out {seconds(limits.timeout_seconds)}"
    yield f"lease {seconds(limits.heartbeat_timeout_seconds)}"
    if limits.max_concurrency is not None:
        yield f"{limits.max_concurrency:,} at once"
    if limits.max_queue_depth is not None:
        yield f"{limits.max_queue_depth:,} in the queue"
    if limits.max_queue_age_s is not None:
        yield f"{seconds(limits.max_queue_age_s)} in the queue"


def _show_history(attempts: list[AttemptStatus]) -> None:
    show_table(
        wide_console(),
        ("attempt", "worker", "started (UTC)", "took", "outcome", "log"),
        [_attempt(each) for each in attempts],
        right=("attempt", "took"),
        notes=[printable(_error(each)) for each in attempts],
    )


def _attempt(each: AttemptStatus) -> tuple[str, ...]:
    took = (each.ended_at - each.started_at).total_seconds() if each.ended_at else None
    return (
        str(each.attempt),
        escape(printable(each.worker_id)),
        clock(each.started_at),
        seconds(took),
        each.outcome or "running",
        "yes" if each.has_log else "-",
    )


def _log_line(line: dict[str, Any]) -> str:
    timestamp, level, event = (str(line.get(key, "")) for key in ("timestamp", "level", "event"))
    facts = {key: value for key, value in line.items() if key not in _OWN_PLACE}
    exception = line.get("exception") or line.get("traceback")
    return log_line.render(timestamp, level, event, facts, exception)
