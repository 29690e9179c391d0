"""Tables that stay readable on a narrow terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from rich.console import Console
from rich.text import Text

_GAP = "  "
_LEAST_WIDTH = 4


def short_id(console: Console, id: UUID) -> str:
    """As much of it as tells it from others; in a pipe all of it."""
    return brief(id) if console.is_terminal else str(id)


def brief(id: UUID) -> str:
    """What was made at about the same time begins alike when ids begin with the time (UUIDv7)."""
    return str(id)[-8:] if id.version == 7 else str(id)[:8]


def show_table(
    console: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    spare: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> None:
    """A line for each row, and below it the note of it, as long as it is. Cells are markup, notes
    are not. Where the terminal is too narrow, the `spare` columns go first, then the widest ones
    are shortened."""
    table = [[Text(head, "bold") for head in heads], *(list(map(_cell, row)) for row in rows)]
    widths = {head: max(cells) for head, *cells in zip(heads, *map(_lengths, table), strict=True)}
    for name in spare:
        if _width(widths) > console.width:
            del widths[name]
    while _width(widths) > console.width and max(widths.values()) > _LEAST_WIDTH:
        widths[max(widths, key=lambda name: widths[name])] -= 1
    for number, row in enumerate(table):
        cells = dict(zip(heads, row, strict=True))
        for name, width in widths.items():
            cells[name].truncate(width, overflow="ellipsis")
            cells[name].align("right" if name in right else "left", width)
        line = Text(_GAP).join(cells[name] for name in widths)
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
        if number and notes and notes[number - 1]:
            for part in Text(notes[number - 1]).wrap(console, console.width - len(_GAP)):
                console.print(Text(_GAP) + part)


def _cell(markup: str) -> Text:
    """Of one line, whatever is in it."""
    text = Text.from_markup(markup)
    return Text(" ").join(text.split()) if "\n" in text.plain else text


def _lengths(row: Sequence[Text]) -> list[int]:
    return [cell.cell_len for cell in row]


def _width(widths: dict[str, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)
