"""`trace sources`: make a source emit."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_platform.app import control_client
from trace_platform.app.home import Home
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
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Emit a block range from a manual source. A range that was emitted before changes nothing."""
    answer = control_client.trigger(Home.at(home), dag, job, start, end)
    if as_json:
        typer.echo(answer.model_dump_json())
    elif answer.accepted:
        typer.echo(f"{dag}.{job} emitted blocks {start} to {end}")
    else:
        typer.echo(f"{dag}.{job} emitted blocks {start} to {end} before: nothing to do")
