"""`trace rollback`: an earlier version is active again, at once."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.options import HomeOption, JsonOption


def rollback(
    dag: Annotated[str, typer.Argument(help="The DAG's name.")],
    to: Annotated[
        str | None,
        typer.Option("--to", help="A version's id, or its beginning; the one before unless given."),
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an earlier version of a DAG active again; give up one that is being built."""
    place = Home.at(home)
    target = control_client.dag_version(place, dag, to).dag_version if to else None
    done = control_client.rollback(place, dag, _current(place, dag), target)
    if as_json:
        typer.echo(done.model_dump_json())
        return
    version, instead = str(done.dag_version)[:8], str(done.instead_of)[:8]
    if done.deploy_id is None:
        typer.echo(f"{dag}: version {instead} is not built any further; {version} is active")
    else:
        typer.echo(f"{dag}: version {version} is active again, instead of {instead}")


def _current(home: Home, dag: str) -> UUID:
    """What is being built, or else what is active: what the user sees, and wants gone."""
    newest = control_client.deploys(home, dag, 1).deploys
    if newest and newest[0].status == "Building":
        return newest[0].to_version
    return control_client.dag_version(home, dag, "active").dag_version
