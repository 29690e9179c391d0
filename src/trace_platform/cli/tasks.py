"""`trace tasks`: what runs, what failed and why."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.wire.control import TaskStatus

tasks = typer.Typer(
    help="Show tasks, cancel or retry one.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@tasks.command("list")
def list_tasks(
    dag: Annotated[str | None, typer.Argument(help="Only of this DAG.")] = None,
    status: Annotated[
        str | None,
        typer.Option(help="Only Queued, Running, Completed, Failed or Canceled ones."),
    ] = None,
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1000)] = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """The newest tasks first, with the error of those that failed."""
    found = control_client.tasks(Home.at(home), dag, status, limit)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = Console()
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
def cancel(
    task_id: Annotated[UUID, typer.Argument(help="The task.")],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a task: at once when it waits, with its next heartbeat when it runs."""
    answer = control_client.cancel(Home.at(home), task_id)
    if as_json:
        typer.echo(answer.model_dump_json())
    elif answer.status == "Running":
        typer.echo(f"{task_id} is told to stop with its next heartbeat")
    else:
        typer.echo(f"{task_id} is canceled")


@tasks.command()
def retry(
    task_id: Annotated[UUID, typer.Argument(help="The task.")],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a task that failed or was canceled all its attempts again."""
    answer = control_client.retry(Home.at(home), task_id)
    typer.echo(answer.model_dump_json() if as_json else f"{task_id} is queued again")


def _cells(task: TaskStatus) -> tuple[str, ...]:
    given = task.inputs[0] if task.inputs else {}
    scope = given.get("partition_key") or given.get("cursor")
    error = escape(f"[{task.error_code}] {task.error_message}") if task.error_code else ""
    status = f"{task.status}, retrying" if task.next_retry_at else task.status
    job = f"{task.dag_name}.{task.job_name}"
    return str(task.task_id), job, str(scope or ""), status, str(task.attempt), error
