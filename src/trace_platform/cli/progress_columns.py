"""What of a progress line fits the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TimeElapsedColumn

Column = str | ProgressColumn
_ROOM = 80


def fitting(console: Console, *columns: Column) -> tuple[Column, ...]:
    """Where it is narrow the words are kept, and bars and clocks left out: Rich would shorten
    all of them until none can be read."""
    if console.width >= _ROOM:
        return columns
    return tuple(each for each in columns if not isinstance(each, BarColumn | TimeElapsedColumn))
