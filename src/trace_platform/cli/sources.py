"""`trace sources`: how the sources do, and making one emit."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import complete
from trace_platform.cli.follow import follow, goes_on, now_of
from trace_platform.cli.options import HomeOption, JsonOption, group
from trace_platform.cli.table import show_table
from trace_platform.cli.words import clock, printable, seconds, wide_console
from trace_platform.wire.sources import SourceStatus

_STYLES = {"Running": "green", "Active": "green", "Dead": "red", "Stuck": "red", "Canceled": "red"}

sources = group("Show sources, or make one emit.")


@sources.callback()
def _group() -> None:
    """Show sources, or make one emit."""


@sources.command("list")
def list_sources(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Every deployed source: its state, its newest event, and when or where it emits next."""
    found = control_client.sources(Home.at(home))
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.sources:
        console.print("no source is deployed")
        return
    heads = ("source", "kind", "state", "last event", "next tick (UTC)", "path")
    show_table(console, heads, [_cells(each) for each in found.sources], spare=("kind",))
    for source in found.sources:
        if source.state in ("Dead", "Stuck"):
            said = _last_words(source) if source.state == "Dead" else _stuck(source)
            console.print(said, markup=False, highlight=False, soft_wrap=True)


def _cells(source: SourceStatus) -> tuple[str, ...]:
    style = _STYLES.get(source.state, "yellow")
    age = source.last_event_age_s
    return (
        f"{source.dag_name}.{source.job_name}",
        source.kind,
        f"[{style}]{source.state}[/{style}]",
        "-" if age is None else f"{seconds(age)} ago",
        clock(source.next_tick),
        source.path or "-",
    )


def _last_words(source: SourceStatus) -> str:
    why = source.error_message or "it ended"
    again = f"; next try {clock(source.next_retry_at)} UTC" if source.next_retry_at else ""
    said = why.splitlines()[0] if why.strip() else "no message"
    return printable(f"  {source.dag_name}.{source.job_name} is dead: {said}{again}")


def _stuck(source: SourceStatus) -> str:
    name = f"{source.dag_name}.{source.job_name}"
    heard = "its head was never heard of"
    if source.heard_s is not None and source.head is not None:
        heard = f"the head, {source.head:,}, was heard of {seconds(source.heard_s)} ago"
    lasts = f"does not get on for {seconds(source.stuck_s)} ({heard})"
    return printable(f"  {name} {lasts}: {source.stuck}")


@sources.command()
def trigger(
    dag: Annotated[str, typer.Argument(help="The DAG's name.", autocompletion=complete.dags)],
    job: Annotated[
        str, typer.Argument(help="The source job's name.", autocompletion=complete.jobs_of_dag)
    ],
    start: Annotated[int, typer.Option("--from", help="First block.", metavar="BLOCK", min=0)],
    end: Annotated[int, typer.Option("--to", help="Last block, included.", metavar="BLOCK", min=0)],
    wait: Annotated[
        bool, typer.Option("--wait", help="Show progress until all tasks of the DAG ended.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Emit a block range from a manual source. A range that was emitted before changes nothing."""
    place = Home.at(home)
    began = now_of(place, dag) if wait else None
    answer = control_client.trigger(place, dag, job, start, end)
    if as_json:
        typer.echo(answer.model_dump_json())
    elif answer.accepted:
        typer.echo(f"{dag}.{job} emitted blocks {start:,} to {end:,}")
    else:
        typer.echo(f"{dag}.{job} emitted blocks {start:,} to {end:,} before: nothing to do")
    if began is not None:
        # On stderr: standard output holds the answer and nothing else.
        with goes_on(f"the tasks go on: trace tasks list {dag}"):
            follow(Console(stderr=True), place, dag, began)
