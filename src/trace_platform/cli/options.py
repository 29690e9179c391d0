"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trace_platform.app.home import Home
from trace_platform.domain.block_range import MAX_BLOCK
from trace_platform.domain.errors import SetupError

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        envvar="TRACE_HOME",
        help="The directory of the instance.",
        show_default=".trace",
        file_okay=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LimitOption = Annotated[
    int, typer.Option("--limit", help="At most this many.", metavar="N", min=1, max=1000)
]


def block_option(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, metavar="BLOCK", min=0, max=MAX_BLOCK)


class _Group(TyperGroup):
    """Summaries of commands are wrapped, never cut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(1_000)) for name, each in self.commands.items()]
            )


def group(help: str) -> typer.Typer:
    """A command of commands."""
    return typer.Typer(
        cls=_Group,
        help=help,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )


def existing_home(path: Path | None) -> Home:
    """A wrong --home must not become an instance."""
    home = Home.at(path)
    if not (home.root / "secrets").is_dir():
        raise SetupError(
            f"there is no instance at {home.root}",
            hint="give its --home, or start one with `trace up`",
        )
    return home
