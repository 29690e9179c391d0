"""`trace down`"""

from __future__ import annotations

import json

import typer

from trace_platform.cli.options import HomeOption, JsonOption


def down(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Stop an instance, and whatever a killed one left running."""
    from trace_platform.app.control import stop_instance
    from trace_platform.app.home import Home

    place = Home.at(home)
    stopped = stop_instance(place)
    if as_json:
        typer.echo(json.dumps({"home": str(place.root), "stopped": stopped}))
    else:
        typer.echo(f"stopped {place.root}" if stopped else f"nothing runs in {place.root}")
