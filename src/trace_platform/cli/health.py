"""`trace health`: the alerts that every instance should have."""

from __future__ import annotations

import typer

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.words import printable


def health(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Check queues, failures, sources and workers. Exit code 1: something is wrong."""
    found = control_client.health(Home.at(home))
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        for rule in found.rules:
            level = (
                typer.style("FIRE", fg="red") if rule.firing else typer.style("ok  ", fg="green")
            )
            typer.echo(f"{level}  {rule.code:<20} {printable(at_home(rule.text))}")
    raise typer.Exit(1 if found.firing else 0)
