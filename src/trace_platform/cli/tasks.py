"""`trace tasks`: what runs, what failed and why, and what it said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.markup import escape

from trace_platform.app.api_client import control_client, dataset_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import complete, log_line
from trace_platform.cli.change_tasks import Filters, change, dag_and_job, one_way
from trace_platform.cli.confirm import YesOption
from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption, group
from trace_platform.cli.table import short_id, show_table
from trace_platform.cli.task_status import status_of
from trace_platform.cli.words import clock, printable, scope_of, seconds, wide_console
from trace_platform.domain.own_code import short
from trace_platform.wire.control import AttemptStatus, TaskDetail, TaskGroup, TaskGroups, TaskStatus

tasks = group("Show tasks and their logs, cancel or retry them.")
Task = Annotated[
    str, typer.Argument(help="The task's id, or 8 characters or more of its end or start.")
]

MaybeTask = Annotated[
    str | None,
    typer.Argument(help="The task's id, or a part of it. Or say which ones with the options."),
]
DagFilter = Annotated[
    str | None, typer.Option("--dag", help="Only of this DAG.", autocompletion=complete.dags)
]
JobFilter = Annotated[
    str | None, typer.Option("--job", help="Only of this job.", autocompletion=complete.jobs_of_dag)
]

_MOMENT = "such as 2026-11-18T14:00 or 90m (ago)"
_HEADS = ("task", "job", "input", "status", "attempt")
_MORE = "--limit N shows up to 1,000, --status and --job less"

# Of a log line, shown in a place of their own.
_ENDS = ("attempt_failed", "attempt_canceled")
_OWN_PLACE = {"timestamp", "level", "event", "exception", "traceback"}


@tasks.command("list")
def list_tasks(
    dag: Annotated[
        str | None,
        typer.Argument(help="Only of this DAG, or DAG.JOB.", autocompletion=complete.dags),
    ] = None,
    job: Annotated[
        str | None, typer.Option(help="Only of this job.", autocompletion=complete.jobs_of_dag)
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(help="Only Queued, Running, Completed, Failed or Canceled ones."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="A row for each, also where many are alike.")
    ] = False,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """The newest tasks first, with the error of those that failed. Three and more of a job that
    ended alike are one row; with --all, --job, --status or --json each has its own."""
    place, wanted = Home.at(home), status_of(status)
    dag, job = dag_and_job(dag, job)
    if not (everything or job or status or as_json):
        _show_groups(control_client.task_groups(place, dag, limit))
        return
    found = control_client.tasks(place, dag, wanted, limit, job)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.tasks:
        console.print("no tasks")
        return
    show_table(
        console,
        _HEADS,
        [_cells(console, task) for task in found.tasks],
        right=("attempt",),
        notes=[_note(task) for task in found.tasks],
    )
    if found.more:
        _say(console, f"these are the newest {len(found.tasks):,}: {_MORE}")


def _show_groups(found: TaskGroups) -> None:
    console = wide_console()
    if not found.groups:
        console.print("no tasks")
        return
    rows = [
        _alike(each) if each.tasks > 1 else _cells(console, each.newest) for each in found.groups
    ]
    notes = [_note(each.newest) for each in found.groups]
    show_table(console, _HEADS, rows, right=("attempt",), notes=notes)
    if any(each.tasks > 1 for each in found.groups):
        _say(console, "tasks that are alike are one row: --all, --job or --status shows each")
    if found.more:
        _say(console, f"there are older ones: {_MORE}")


def _alike(group: TaskGroup) -> tuple[str, ...]:
    first, last = clock(group.first_at), clock(group.last_at)
    # Of the same day the day is said once.
    until = last[11:16] if first[:10] == last[:10] else last[:16]
    job = f"{group.dag_name}.{group.job_name}"
    return f"{group.tasks:,} tasks", job, f"{first[:16]} to {until}", _status(group.newest), "-"


def _note(task: TaskStatus) -> str:
    return printable(_error(task) or task.note or "")


def _say(console: Console, text: str) -> None:
    console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)


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
        said = f"it has not started yet; trace why {found.task_id} says what it waits for"
        typer.echo(at_home(said))


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
    if not found.lines and not found.error_code:
        typer.echo(f"attempt {found.attempt} logged nothing")
    for line in found.lines:
        typer.echo(_log_line(line))
    # Where its worker could not say how it ended, that is on record all the same.
    if found.error_code and not any(line.get("event") in _ENDS for line in found.lines):
        said = f"{found.outcome}: [{found.error_code}] {found.error_message}"
        typer.echo(printable(f"attempt {found.attempt} ended as {said}"))


@tasks.command()
def cancel(
    task: MaybeTask = None,
    dag: DagFilter = None,
    job: JobFilter = None,
    status: Annotated[
        str | None, typer.Option(help="Only Queued, Running or Failed (to be retried) ones.")
    ] = None,
    since: Annotated[str | None, typer.Option(help=f"Only made since then, {_MOMENT}.")] = None,
    until: Annotated[str | None, typer.Option(help=f"Only made until then, {_MOMENT}.")] = None,
    yes: YesOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a task: at once when it waits, with its next heartbeat when it runs. Or all that have
    not ended of a DAG, a job, a status or a time, but for the runs of sources: says how many, and
    asks."""
    filters = Filters(dag, job, status, since, until)
    one_way(task, filters)
    if task is None:
        change(Home.at(home), "cancel", filters, yes=yes, as_json=as_json)
        return
    place, task_id = _found(task, home)
    answer = control_client.cancel(place, task_id)
    if as_json:
        typer.echo(answer.model_dump_json())
    elif answer.status == "Running":
        typer.echo(f"{task_id} is told to stop with its next heartbeat")
    else:
        typer.echo(f"{task_id} is canceled")


@tasks.command()
def retry(
    task: MaybeTask = None,
    dag: DagFilter = None,
    job: JobFilter = None,
    status: Annotated[
        str | None, typer.Option(help="Failed ones unless given; or Canceled ones.")
    ] = None,
    since: Annotated[str | None, typer.Option(help=f"Only ended since then, {_MOMENT}.")] = None,
    until: Annotated[str | None, typer.Option(help=f"Only ended until then, {_MOMENT}.")] = None,
    yes: YesOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a task that failed or was canceled all its attempts again. Or all that failed for good
    of a DAG, a job or a time, but for the runs of sources: says how many, and asks."""
    filters = Filters(dag, job, status, since, until)
    one_way(task, filters)
    if task is None:
        change(Home.at(home), "retry", filters, yes=yes, as_json=as_json)
        return
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
    operator = short(limits.operator or "-")
    yield "job", f"{task.dag_name}.{task.job_name} ({operator} on {limits.runtime})"
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
    yield "attempts", _attempts(task)
    yield "limits", ", ".join(_limits(task))
    for given in task.inputs:
        yield "input", f"{scope_of(given)} of {_named(given['dataset_uuid'], names)}"
    for output in task.outputs:
        yield "output", f"{_named(output.dataset_uuid, names)} ({output.name})"


def _attempts(task: TaskDetail) -> str:
    counted = task.attempt - task.forgiven
    most = task.limits.max_attempts
    limit = ", without a limit: a source is started again" if most is None else f" of {most:,}"
    return f"{counted}{limit}{_forgiven(task.forgiven)}"


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
