"""`trace secrets`: values for the names that DAG files give. No command shows one."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption, existing_home, group
from trace_platform.cli.words import instant
from trace_platform.domain.errors import BadInput, NotFound

if TYPE_CHECKING:
    from pathlib import Path

    from trace_platform.app.instance.named_secrets import NamedSecrets

secrets = group("Set the secrets that DAG files name.")
Named = Annotated[str, typer.Argument(help="The name, as the DAG's file has it.")]


@secrets.command("set")
def set_secret(name: Named, home: HomeOption = None) -> None:
    """Keep a value, read from standard input or asked for. It counts at once.

    The signing secret of a webhook is whsec_ and base64.
    """
    from trace_platform.app.instance.named_secrets import checked

    place = _existing(home)
    checked(name)
    place.set(name, _value())
    typer.echo(f"{name} is set")


@secrets.command("list")
def list_secrets(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Which names have a value, and where it is kept. Shows no value."""
    found = _existing(home).listing()
    if as_json:
        rows = [
            {"name": each.name, "kept_in": each.kept_in, "set_at": instant(each.set_at)}
            for each in found
        ]
        typer.echo(json.dumps({"secrets": rows}))
        return
    for each in found:
        since = f"since {instant(each.set_at)}" if each.set_at else "TRACE_SECRET_... of this shell"
        typer.echo(f"{each.name:<30} {each.kept_in:<12} {since}")
    if not found:
        typer.echo(at_home("no secret is set: trace secrets set NAME"))


@secrets.command()
def remove(name: Named, home: HomeOption = None) -> None:
    """Forget a value. Deliveries that it signs are refused from then on."""
    if not _existing(home).remove(name):
        raise NotFound(f"no secret '{name}' is kept here", hint="trace secrets list")
    typer.echo(f"{name} is removed")


def _value() -> str:
    from trace_platform.app.instance.named_secrets import MAX_BYTES

    if sys.stdin.isatty():
        value = str(typer.prompt("value", hide_input=True))
    else:
        # One byte more than is allowed tells that it is too long.
        value = _text(sys.stdin.buffer.read(MAX_BYTES + 1))
    if not value.strip():
        raise BadInput("the value is empty", hint="pipe it in, or type it when you are asked")
    if len(value.encode()) > MAX_BYTES:
        raise BadInput(f"the value is longer than {MAX_BYTES:,} bytes")
    return value.strip()


def _text(given: bytes) -> str:
    try:
        return given.decode()
    except UnicodeDecodeError:
        raise BadInput("the value is not text", hint="give it in base64") from None


def _existing(path: Path | None) -> NamedSecrets:
    from trace_platform.app.instance.named_secrets import NamedSecrets

    return NamedSecrets(existing_home(path))
