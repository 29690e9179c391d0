"""A line of a log, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from trace_platform.cli.words import printable

_COLOURS = {"warning": "yellow", "error": "red", "critical": "red", "panic": "red"}


def render(
    timestamp: str,
    level: str,
    event: str,
    facts: Mapping[str, Any],
    exception: Any = None,
    process: str | None = None,
) -> str:
    """12:00:00.000 warning dispatcher  lease_expired task_id=7; nothing of it reaches the terminal
    as a command."""
    shown = typer.style(f"{printable(level):<8}", fg=_COLOURS.get(level))
    by = "" if process is None else f"{printable(process):<10}  "
    said = printable(" ".join([event, *(f"{key}={value}" for key, value in facts.items())]))
    text = f"{printable(timestamp)[11:23]:12} {shown} {by}{said}"
    return f"{text}\n{printable(str(exception))}" if exception else text
