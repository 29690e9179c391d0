"""What cannot simply be undone, or concerns others, is asked before it is done."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from trace_platform.cli.words import printable
from trace_platform.domain.errors import NotConfirmed

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_YES = "with --yes it is done without a question"


def confirm(question: str, facts: Iterable[str] = (), cure: str = _YES) -> None:
    """Say what will happen, and go on when the answer is yes. Raise NotConfirmed where nobody can
    be asked. All of it on stderr: standard output holds the answer and nothing else."""
    for fact in facts:
        typer.echo(printable(fact), err=True)
    if not sys.stdin.isatty():
        raise NotConfirmed(
            f"nobody can be asked, for there is no terminal: {question}",
            hint=cure,
        )
    if not typer.confirm(question, err=True):
        typer.echo("nothing was done", err=True)
        raise typer.Exit(1)
