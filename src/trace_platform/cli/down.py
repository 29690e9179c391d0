"""`trace down`"""

from __future__ import annotations

import json

import typer

from trace_platform.cli.options import HomeOption, JsonOption


def down(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Stop an instance, and whatever a killed one left running. What `trace serve` runs is left to
    whoever runs it."""
    from trace_platform.app.instance.home import Home
    from trace_platform.app.supervise.control import stop_instance
    from trace_platform.app.supervise.served import read_served

    place = Home.at(home)
    stopped = stop_instance(place)
    left = [each for each in read_served(place) if each.alive()]
    if as_json:
        said = {"left": [{"name": each.name, "pid": each.pid} for each in left]}
        typer.echo(json.dumps({"home": str(place.root), "stopped": stopped, **said}))
    else:
        typer.echo(f"stopped {place.root}" if stopped else f"nothing runs in {place.root}")
        for each in left:
            typer.echo(f"{each.name} (pid {each.pid}) runs on: its own supervisor keeps it")
