"""`trace dag versions|show|diff`: what a DAG was, and is."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer
import yaml as pyyaml

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import complete
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption
from trace_platform.cli.table import show_table
from trace_platform.cli.words import ago, clock, printable, wide_console
from trace_platform.wire.plan import DagVersion

DagName = Annotated[str, typer.Argument(help="The DAG's name.", autocompletion=complete.dags)]


def versions(
    dag: DagName,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the versions of a DAG, the newest first."""
    found = control_client.dag_versions(Home.at(home), dag, limit)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    heads = ("version", "made", "state", "content")
    rows = [_version(each) for each in found.versions]
    show_table(wide_console(), heads, rows, spare=("content",), prose=("state",))


def _version(each: DagVersion) -> tuple[str, ...]:
    state = f"active since {clock(each.activated_at)}" if each.active else ""
    if each.purged:
        state = "data purged"
    return str(each.dag_version)[:8], ago(each.created_at), state, each.content_hash[:12]


def show(
    dag: DagName,
    version: Annotated[
        str, typer.Argument(help="A version's id or its beginning, or active.")
    ] = "active",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the file of a version."""
    found = control_client.dag_version(Home.at(home), dag, version)
    typer.echo(found.model_dump_json() if as_json else printable(found.yaml), nl=as_json)


def diff(
    dag: DagName,
    one: Annotated[str, typer.Argument(help="A version's id or its beginning, active, or a file.")],
    other: Annotated[
        str | None, typer.Argument(help="Another one. With one alone: what it changes.")
    ] = None,
    home: HomeOption = None,
) -> None:
    """Compare two versions, or a version and a file, by meaning: not by how they are written."""
    place = Home.at(home)
    sides = (one, other) if other is not None else ("active", one)
    before, after = (_lines(place, dag, side) for side in sides)
    found = list(difflib.unified_diff(before, after, *sides, lineterm="", n=3))
    typer.echo("\n".join(found) if found else f"{sides[0]} and {sides[1]} mean the same")


def _lines(home: Home, dag: str, named: str) -> list[str]:
    path = Path(named)
    if path.suffix in (".yaml", ".yml") or path.exists():
        text = control_client.read_dag_file(path)
    else:
        text = control_client.dag_version(home, dag, named).yaml
    return printable(_plain(text)).splitlines()


def _plain(text: str) -> str:
    """One way of writing it down; what cannot be read stays as it is."""
    from trace_platform.dag.read.dag_yaml import DagErrors, read_dag

    try:
        dag, _ = read_dag(text)
    except DagErrors:
        return text
    data = dag.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return pyyaml.safe_dump(data, sort_keys=False, width=100)
