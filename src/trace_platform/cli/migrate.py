"""`trace migrate`"""

from __future__ import annotations

import json

import typer

from trace_platform.cli.options import HomeOption, JsonOption


def migrate(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Prepare certificates, roles, databases and tables, for deployments that run `trace serve`
    themselves."""
    from trace_platform.app.instance.close_home import close_home, private_files
    from trace_platform.app.instance.databases import prepare
    from trace_platform.app.instance.home import Home
    from trace_platform.app.instance.open_instance import open_instance
    from trace_platform.app.instance.settings import load_settings
    from trace_platform.drivers.lite.certificates import ensure_certificates

    place = Home.at(home)
    settings = load_settings(place)
    close_home(place, settings.bucket)
    with private_files():
        # A process may start before the one that shows them: it reads the CA's file at once.
        ensure_certificates(place.tls)
        applied = prepare(place, settings, open_instance(place, settings))
    if as_json:
        typer.echo(json.dumps({"home": str(place.root), "applied": applied}))
        return
    for name in applied:
        typer.echo(f"applied {name}")
    typer.echo("the databases are up to date")
