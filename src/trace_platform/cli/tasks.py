"""`trace tasks`: what runs, what failed and why, and what it said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.markup import escape
from rich.table import Table

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.words import clock, printable, scope_of, seconds, wide_console
from trace_platform.wire.control import AttemptStatus, TaskDetail, TaskStatus

tasks = typer.Typer(
    help="Show tasks and their logs, cancel or retry one.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Task = Annotated[str, typer.Argument(help="The task's id, or 8 characters or more of its start.")]

_COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}
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
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1000)] = 20,
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
    table = Table(box=None, pad_edge=False)
    table.add_column("task", no_wrap=True, min_width=36)  # whole: it is what retry and cancel take
    for name in ("job", "input", "status", "attempt", "error"):
        table.add_column(name)
    for task in found.tasks:
        table.add_row(*_cells(task))
    console.print(table)


@tasks.command()
def show(task: Task, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show a task with its inputs, outputs, limits and all its attempts."""
    found = control_client.task(*_found(task, home))
    if as_json:
        typer.echo(found.model_dump_json())
        return
    for name, value in _facts(found):
        typer.echo(f"{name:<9} {printable(value)}")
    typer.echo()
    if found.attempts:
        wide_console().print(_history(found.attempts))
    else:
        typer.echo(f"it has not started yet; trace why {found.task_id} says what it waits for")


@tasks.command()
def logs(
    task: Task,
    attempt: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Default: the newest.")
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


def _cells(task: TaskStatus) -> tuple[str, ...]:
    scope = scope_of(task.inputs[0]) if task.inputs else ""
    job = f"{task.dag_name}.{task.job_name}"
    error = escape(printable(_error(task)))
    return str(task.task_id), job, escape(scope), _status(task), str(task.attempt), error


def _status(task: TaskStatus) -> str:
    if task.next_retry_at:
        return f"{task.status}, retrying"
    return f"{task.status}, deferred" if task.pending_backpressure else task.status


def _error(ended: TaskStatus | AttemptStatus) -> str:
    return f"[{ended.error_code}] {ended.error_message}" if ended.error_code else ""


def _facts(task: TaskDetail) -> Iterator[tuple[str, str]]:
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
    counted = task.attempt - task.forgiven
    yield "attempts", f"{counted} of {limits.max_attempts}{_forgiven(task.forgiven)}"
    yield "limits", ", ".join(_limits(task))
    for given in task.inputs:
        yield "input", f"{scope_of(given)} of {given['dataset_uuid']}"
    for output in task.outputs:
        yield "output", f"{output.name} ({output.dataset_uuid})"


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


def _history(attempts: list[AttemptStatus]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("attempt", "worker", "started (UTC)", "took", "outcome", "log", "error"):
        table.add_column(name)
    for each in attempts:
        took = (each.ended_at - each.started_at).total_seconds() if each.ended_at else None
        table.add_row(
            str(each.attempt),
            escape(printable(each.worker_id)),
            clock(each.started_at),
            seconds(took),
            each.outcome or "running",
            "yes" if each.has_log else "-",
            escape(printable(_error(each))),
        )
    return table


def _log_line(line: dict[str, Any]) -> str:
    """12:00:00.000 info     fetched blocks=10"""
    level = str(line.get("level", ""))
    shown = typer.style(f"{printable(level):<8}", fg=_COLOURS.get(level))
    facts = [f"{key}={value}" for key, value in line.items() if key not in _OWN_PLACE]
    said = printable(" ".join([str(line.get("event", "")), *facts]))
    text = f"{printable(str(line.get('timestamp', '')))[11:23]:12} {shown} {said}"
    exception = line.get("exception") or line.get("traceback")
    return f"{text}\n{printable(str(exception))}" if exception else text
