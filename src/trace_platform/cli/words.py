"""How commands read names, and say figures and what strangers wrote."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from trace_platform.domain.errors import BadInput
from trace_platform.domain.event_scope import event_scope
from trace_platform.domain.figures import duration

_NO_TERMINAL_WIDTH = 10_000


def job_of(name: str) -> tuple[str, str]:
    """DAG and job of `DAG.JOB`."""
    dag, dot, job = name.partition(".")
    if not (dag and dot and job):
        raise BadInput(
            f"'{name}' does not name a job", hint="name it as DAG.JOB, such as chain.split"
        )
    return dag, job


def wide_console() -> Console:
    """For tables. A pipe has no width: nothing is cut or wrapped there."""
    console = Console()
    return console if console.is_terminal else Console(width=_NO_TERMINAL_WIDTH)


def printable(text: str) -> str:
    """Errors and logs may hold terminal escapes: they are shown, never sent."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def roughly(number: int, estimated: bool) -> str:
    """1,524 where it was counted, else ~1,524."""
    return f"{'~' if estimated else ''}{number:,}"


def seconds(value: float | None) -> str:
    return "-" if value is None else duration(value)


def ago(moment: datetime | None) -> str:
    if moment is None:
        return "-"
    return f"{seconds((datetime.now(UTC) - moment).total_seconds())} ago"


def clock(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def instant(unix_s: float | None) -> str | None:
    if unix_s is None:
        return None
    return datetime.fromtimestamp(int(unix_s), UTC).isoformat().replace("+00:00", "Z")


def scope_of(update: dict[str, Any]) -> str:
    return event_scope(update.get("partition_key"), update.get("cursor"))
