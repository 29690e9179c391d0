"""`trace users`: who may query. A token is shown when it is made, and never again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from trace_platform.cli.options import HomeOption, JsonOption, existing_home, group
from trace_platform.cli.words import instant

if TYPE_CHECKING:
    from pathlib import Path

    from trace_platform.app.query_users import QueryUsers

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
    token = _existing(home).add(name, pii or ())
    _tell(name, token, as_json, f"{name} may query; {_sees(pii or [])}")


@users.command()
def rotate(name: Name, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Give a user a new token, and print it. The one before stops working at once."""
    token = _existing(home).rotate(name)
    _tell(name, token, as_json, f"{name} has a new token; the one before opens nothing any more")


@users.command()
def grant(name: Name, pii: Pii = None, home: HomeOption = None) -> None:
    """Set whose personal columns a user sees: these and no others. Also of 'owner'."""
    _existing(home).grant(name, pii or ())
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
    from trace_platform.app.query_users import QueryUsers

    return QueryUsers(existing_home(path))
