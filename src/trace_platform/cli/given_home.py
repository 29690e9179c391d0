"""Commands that a hint names are right where the person is: with `--home`, where that was given."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import typer

# Of this process. A variable needs no mention: the next command sees it too.
_given: list[Path] = []
# `trace`, a command, and perhaps one of its own.
_COMMAND = re.compile(r"\btrace (?P<name>[a-z]+)(?P<own>(?: (?!trace\b)[a-z]+){0,2})")


def remember(context: typer.Context, value: Path | None) -> Path | None:
    """For the option itself."""
    source = context.get_parameter_source("home")
    is_typed = source is not None and source.name == "COMMANDLINE"
    _given[:] = [value] if value is not None and is_typed else []
    return value


def at_home(text: str) -> str:
    """The text, each command in it that wants a home with the one that was given."""
    return _COMMAND.sub(_with_home, text) if _given else text


def _with_home(match: re.Match[str]) -> str:
    from trace_platform.cli import find_command

    words = [match["name"], *match["own"].split()]
    used = _words_of_command(find_command(words[0]), words)
    if used is None:
        return match[0]
    named, left = " ".join(words[:used]), " ".join(words[used:])
    home = f"trace {named} --home {shlex.quote(str(_given[0]))}"
    return f"{home} {left}" if left else home


def _words_of_command(command: Any, words: list[str]) -> int | None:
    """How many of the words name it; None: it wants no home, or there is no such command."""
    used = 1
    while (groups := getattr(command, "commands", None)) is not None:
        if used == len(words) or words[used] not in groups:
            break
        command, used = groups[words[used]], used + 1
    wants_home = command is not None and any(each.name == "home" for each in command.params)
    return used if wants_home else None
