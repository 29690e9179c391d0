"""`trace sources`: make a source emit."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.follow import follow
from trace_platform.cli.options import HomeOption, JsonOption

sources = typer.Typer(
    help="Make a source emit.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@sources.callback()
def _group() -> None:
    """Make a source emit."""


@sources.command()
def trigger(
    dag: Annotated[str, typer.Argument(help="The DAG's name.")],
    job: Annotated[str, typer.Argument(help="The source job's name.")],
    start: Annotated[int, typer.Option("--from", help="First block.", min=0)],
    end: Annotated[int, typer.Option("--to", help="Last block, included.", min=0)],
    wait: Annotated[
        bool, typer.Option("--wait", help="Show progress until all tasks of the DAG ended.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Emit a block range from a manual source. A range that was emitted before changes nothing."""
    place = Home.at(home)
    answer = control_client.trigger(place, dag, job, start, end)
    if as_json:
        typer.echo(answer.model_dump_json())
    elif answer.accepted:
        typer.echo(f"{dag}.{job} emitted blocks {start} to {end}")
    else:
        typer.echo(f"{dag}.{job} emitted blocks {start} to {end} before: nothing to do")
    if wait:
        # On stderr: standard output holds the answer and nothing else.
        follow(Console(stderr=True), place, dag)
