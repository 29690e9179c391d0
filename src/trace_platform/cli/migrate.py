"""`trace migrate`"""

from __future__ import annotations

import typer

from trace_platform.cli.options import HomeOption


def migrate(home: HomeOption = None) -> None:
    """Prepare roles, databases and tables, for deployments that run `trace serve` themselves."""
    from trace_platform.app.databases import prepare
    from trace_platform.app.home import Home
    from trace_platform.app.instance import open_instance
    from trace_platform.app.settings import load_settings

    place = Home.at(home)
    settings = load_settings(place)
    for name in prepare(place, settings, open_instance(place, settings)):
        typer.echo(f"applied {name}")
    typer.echo("the databases are up to date")
