"""`trace events`: what was recorded, and an event by hand."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import complete
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption, block_option, group
from trace_platform.cli.table import short_id, show_table
from trace_platform.cli.words import clock, printable, scope_of, wide_console
from trace_platform.wire.control import EventRecord

events = group("Show events, or emit one.")
Dataset = Annotated[
    str,
    typer.Argument(
        help="A published name, a uuid, or an output as DAG.JOB.OUTPUT.",
        autocompletion=complete.datasets,
    ),
]


@events.command("list")
def list_events(
    dataset: Annotated[
        str | None,
        typer.Argument(
            help="Only of this dataset: a name, a uuid, or DAG.JOB.OUTPUT.",
            autocompletion=complete.datasets,
        ),
    ] = None,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """The newest events first."""
    found = control_client.events(Home.at(home), dataset, limit)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.events:
        console.print(f"no events of {dataset} yet" if dataset else "no events yet", markup=False)
        return
    heads = ("event", "dataset", "update", "recorded (UTC)", "routed", "by task")
    rows = [_cells(console, event) for event in found.events]
    show_table(console, heads, rows, right=("event",), spare=("event", "routed"))


@events.command()
def emit(
    dataset: Dataset,
    cursor: Annotated[int | None, block_option(help="Everything up to here is there.")] = None,
    start: Annotated[int | None, block_option("--from", help="First block of a partition.")] = None,
    end: Annotated[int | None, block_option("--to", help="Its last block, included.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The key of a partition that is no block range.")
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Emit an event of a dataset, as its source would. The same event twice changes nothing."""
    scope = _scope(cursor, start, end, key)
    answer = control_client.emit(Home.at(home), dataset, scope)
    if as_json:
        typer.echo(answer.model_dump_json())
    elif answer.accepted:
        typer.echo(f"{dataset}: {scope_of(scope)} is recorded")
    else:
        typer.echo(f"{dataset}: {scope_of(scope)} was recorded before: nothing to do")


def _scope(
    cursor: int | None, start: int | None, end: int | None, key: str | None
) -> dict[str, Any]:
    ranged = start is not None or end is not None
    if (cursor is not None) + ranged + (key is not None) != 1:
        raise typer.BadParameter("give one of: --cursor N, --from A --to B, --key K")
    if cursor is not None:
        return {"cursor": cursor}
    if key is not None:
        return {"partition_key": key}
    if start is None or end is None:
        raise typer.BadParameter("--from and --to come together")
    return {"partition_key": f"{start}-{end}", "start": start, "end": end}


def _cells(console: Console, event: EventRecord) -> tuple[str, ...]:
    named = event.dataset_name or f"{event.dag_name}.{event.job_name}.{event.output_index}"
    routed = "not yet" if event.routed_at is None else "yes"
    if not event.current:
        routed = "older generation"
    scope = scope_of({"cursor": event.cursor, "partition_key": event.partition_key})
    task = event.producer_task_id
    return (
        str(event.event_id),
        named,
        escape(printable(scope)),
        clock(event.recorded_at),
        routed,
        short_id(console, task) if task else "-",
    )
