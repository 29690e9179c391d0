"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trace_platform.app.instance.home import Home
from trace_platform.cli.given_home import remember
from trace_platform.domain.block_range import MAX_BLOCK
from trace_platform.domain.errors import BadInput, SetupError

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        envvar="TRACE_HOME",
        callback=remember,
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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else dag_in_place(command, rest)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(1_000)) for name, each in self.commands.items()]
            )


def dag_in_place(command: Any, arguments: list[str]) -> list[str]:
    """Some commands take a DAG as their first argument, some as `--dag`: who gives the one where
    the other is wanted is understood."""
    names = {name for each in command.params for name in each.opts}
    if "dag" not in names or "--dag" in names:
        return arguments
    for at, given in enumerate(arguments):
        if given == "--dag" and at + 1 < len(arguments):
            return [arguments[at + 1], *arguments[:at], *arguments[at + 2 :]]
        if given.startswith("--dag="):
            return [given.removeprefix("--dag="), *arguments[:at], *arguments[at + 1 :]]
    return arguments


def group(help: str, *, needs_command: bool = True) -> typer.Typer:
    """A command of commands; one that does something by itself needs none of them."""
    return typer.Typer(
        cls=_Group,
        help=help,
        no_args_is_help=needs_command,
        invoke_without_command=not needs_command,
        add_completion=False,
        rich_markup_mode=None,
    )


def refuse_options_before(context: typer.Context) -> None:
    """Raise BadInput when options of a group were given, and then one of its commands."""
    name = context.invoked_subcommand
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is not None and source.name == "COMMANDLINE":
            raise BadInput(
                f"{option.opts[0]} stands before {name}, which would not see it",
                hint=f"give options behind it: {context.command_path} {name} {option.opts[0]} ...",
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
