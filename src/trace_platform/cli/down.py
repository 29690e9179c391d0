"""`trace down`"""

from __future__ import annotations

import typer

from trace_platform.cli.options import HomeOption


def down(home: HomeOption = None) -> None:
    """Stop an instance, and whatever a killed one left running."""
    from trace_platform.app.control import stop_instance
    from trace_platform.app.home import Home

    place = Home.at(home)
    stopped = stop_instance(place)
    typer.echo(f"stopped {place.root}" if stopped else f"nothing runs in {place.root}")
