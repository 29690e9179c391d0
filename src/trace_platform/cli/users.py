"""`trace users`: who may query. A token is shown when it is made, and never again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from trace_platform.app.api_client import dataset_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.options import HomeOption, JsonOption, existing_home, group
from trace_platform.cli.words import instant
from trace_platform.domain.alike import instead
from trace_platform.domain.errors import Unavailable, UnknownDataset

if TYPE_CHECKING:
    from pathlib import Path

    from trace_platform.app.instance.query_users import QueryUsers

users = group(
    "Let others query, each with a token of their own, and decide who sees personal columns."
)
Name = Annotated[str, typer.Argument(help="Lower-case letters, digits, '_' and '-'.")]
Pii = Annotated[
    list[str] | None,
    typer.Option(
        "--pii",
        metavar="DATASET",
        help="Show the personal columns of this dataset; '*': of all. Can be repeated.",
    ),
]


@users.command()
def add(name: Name, pii: Pii = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Make a user who may query, and print the token: the only time that it is shown."""
    users, granted = _existing(home), pii or []
    _check_granted(Home.at(home), granted)
    token = users.add(name, granted)
    _tell(name, token, as_json, f"{name} may query; {_sees(pii or [])}")


@users.command()
def rotate(name: Name, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Give a user a new token, and print it. The one before stops working at once."""
    token = _existing(home).rotate(name)
    _tell(name, token, as_json, f"{name} has a new token; the one before opens nothing any more")


@users.command()
def grant(name: Name, pii: Pii = None, home: HomeOption = None) -> None:
    """Set whose personal columns a user sees: these and no others. Also of 'owner'."""
    users, granted = _existing(home), pii or []
    _check_granted(Home.at(home), granted)
    users.grant(name, granted)
    typer.echo(f"{name}: {_sees(pii or [])}")


@users.command()
def remove(name: Name, home: HomeOption = None) -> None:
    """Take a user's token away. Queries that run are not stopped."""
    _existing(home).remove(name)
    typer.echo(f"{name} is removed: the token opens nothing any more")


@users.command("list")
def list_users(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show who may query, and whose personal columns they see. Shows no token."""
    found = _existing(home).listing()
    if as_json:
        rows = [
            {"name": each.name, "pii": list(each.pii), "since": instant(each.since)}
            for each in found
        ]
        typer.echo(json.dumps({"users": rows}))
        return
    width = max((len(each.name) for each in found), default=0)
    for each in found:
        typer.echo(f"{each.name:<{width}}  token since {instant(each.since)}  {_sees(each.pii)}")
    if not found:
        typer.echo("nobody yet: the first start makes the owner's token")


def _check_granted(home: Home, pii: list[str]) -> None:
    """Raise UnknownDataset for a name that nothing is published under: it would show nothing, or
    one day something else."""
    asked = [name for name in pii if name != "*"]
    if not asked:
        return
    try:
        found = dataset_client.datasets(home).datasets
    except Unavailable:
        said = f"nobody could be asked whether there is {', '.join(asked)}: the instance is down"
        typer.echo(said, err=True)
        return
    published = [each.name for each in found if each.name]
    for name in asked:
        if name not in published:
            hint = instead(name, published, most=20, said="published are")
            raise UnknownDataset(f"no dataset is published as '{name}'", hint=hint)


def _tell(name: str, token: str, as_json: bool, words: str) -> None:
    """The token alone on the output, so that a script can take it from there."""
    if as_json:
        typer.echo(json.dumps({"name": name, "token": token}))
        return
    typer.echo(f"{words}. The token, which is not shown again:", err=True)
    typer.echo(token)


def _sees(pii: list[str] | tuple[str, ...]) -> str:
    if not pii:
        return "personal columns are masked"
    return f"sees personal columns of {'all datasets' if '*' in pii else ', '.join(sorted(pii))}"


def _existing(path: Path | None) -> QueryUsers:
    from trace_platform.app.instance.query_users import QueryUsers

    return QueryUsers(existing_home(path))
