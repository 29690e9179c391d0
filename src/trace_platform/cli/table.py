"""Tables that stay readable on a narrow terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest
from uuid import UUID

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_GAP = "  "
# Of a column that is longer: less of it says nothing.
_LEAST_WIDTH = 8


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
    prose: Collection[str] = (),
    notes: Sequence[str] = (),
) -> None:
    """A line for each row, and below it the note of it, as long as it is. Cells are markup, notes
    are not. Where the terminal is too narrow, the `spare` columns go first, then the widest ones
    are shortened, or wrapped when they are `prose`; where that is too little, each row is a record
    of a few lines, and nothing is left out. A pipe has no width."""
    table = [list(map(_cell, row)) for row in rows]
    widths = _fitted(console, _widths(heads, table), spare)
    if widths is not None:
        _print_row(console, {head: Text(head, "bold") for head in heads}, widths, right)
    for row, note in zip(table, notes or [""] * len(table), strict=True):
        cells = dict(zip(heads, row, strict=True))
        if widths is None:
            _print_record(console, cells)
        else:
            _print_row(console, cells, widths, right, prose)
        _print_below(console, Text(note))


def _widths(heads: Sequence[str], table: Sequence[Sequence[Text]]) -> dict[str, int]:
    columns = zip(heads, *table, strict=True)
    return {head: max(cell_len(head), *(c.cell_len for c in cells), 0) for head, *cells in columns}


def _fitted(
    console: Console, widths: dict[str, int], spare: Sequence[str]
) -> dict[str, int] | None:
    """How wide each column that is shown may be; None: no such table can be read."""
    if not console.is_terminal:
        return widths
    for name in spare:
        if _width(widths) > console.width:
            widths = {each: width for each, width in widths.items() if each != name}
    while _width(widths) > console.width:
        widest = max(widths, key=lambda name: widths[name])
        if widths[widest] <= _LEAST_WIDTH:
            return None
        widths[widest] -= 1
    return widths


def _print_row(
    console: Console,
    cells: dict[str, Text],
    widths: dict[str, int],
    right: Collection[str] = (),
    prose: Collection[str] = (),
) -> None:
    columns = [
        _lines(console, cells[name], width, is_prose=name in prose, is_right=name in right)
        for name, width in widths.items()
    ]
    for parts in zip_longest(*columns):
        line = Text(_GAP).join(
            part or Text(" " * width) for part, width in zip(parts, widths.values(), strict=True)
        )
        line.rstrip()
        _print_line(console, line)


def _lines(
    console: Console, cell: Text, width: int, *, is_prose: bool, is_right: bool
) -> list[Text]:
    if is_prose and cell.cell_len > width:
        lines = list(cell.wrap(console, width))
    else:
        cell.truncate(width, overflow="ellipsis")
        lines = [cell]
    for line in lines:
        line.rstrip()
        line.align("right" if is_right else "left", width)
    return lines


def _print_record(console: Console, cells: dict[str, Text]) -> None:
    """What it is about, and below it the rest, each with its name."""
    (_, first), *others = cells.items()
    for line in first.wrap(console, console.width):
        _print_line(console, line)
    for name, cell in others:
        if cell.plain:
            _print_below(console, Text.assemble(f"{name}: " if name else "", cell))


def _print_below(console: Console, text: Text) -> None:
    if not text.plain:
        return
    lines = text.wrap(console, console.width - len(_GAP)) if console.is_terminal else [text]
    for line in lines:
        line.rstrip()
        _print_line(console, Text(_GAP) + line)


def _print_line(console: Console, line: Text) -> None:
    console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _cell(markup: str) -> Text:
    """Of one line, whatever is in it."""
    text = Text.from_markup(markup)
    return Text(" ").join(text.split()) if "\n" in text.plain else text


def _width(widths: dict[str, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)
