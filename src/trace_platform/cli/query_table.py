"""A query's rows as text: a table, records or JSON; and what is said below them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trace_platform.client.result import Facts, distinct
from trace_platform.domain.figures import count
from trace_platform.wire.query import QueryColumn, QueryResponse

_NUMERIC = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BIGNUM|FLOAT|DOUBLE|DECIMAL.*")
# An address is short enough to stay whole, so that it can be pasted into the next query; in a
# record so is a word of 32 bytes.
_LONG_HEX = re.compile(r"0x[0-9a-f]{41,}")
_WORD_CHARS = 66
SHORTENED = "… is the middle of long hex: csv and json have all of it"
# Of a version: enough to name it.
_SHORT = 8


def as_table(response: QueryResponse) -> str:
    """As wide as it is: a pipe has no width, and values are whole there."""
    cells = [[_cell(value) for value in row] for row in response.rows]
    target = io.StringIO()
    Console(file=target, width=_natural_width(response.columns, cells)).print(
        _table(response, cells)
    )
    return target.getvalue()


def render_rows(console: Console, response: QueryResponse) -> bool:
    """A table where one fits the terminal, else one record below the other. Whether something of a
    value is not shown."""
    if not console.is_terminal:
        console.file.write(as_table(response))
        return False
    whole = [[_cell(value) for value in row] for row in response.rows]
    shorter = [[_shortened(cell) for cell in row] for row in whole]
    for cells in (whole, shorter):
        if _natural_width(response.columns, cells) <= console.width:
            console.print(_table(response, cells))
            return cells != whole
    is_whole = True
    for line, is_all in record_lines(response, console.width):
        console.print(line, soft_wrap=True)
        is_whole = is_whole and is_all
    return not is_whole


def record_lines(response: QueryResponse, width: int) -> Iterator[tuple[Text, bool]]:
    """`column: value`, a line each, and whether all of it is there: of hex beyond 32 bytes the
    middle is not where the line would not fit."""
    names = [f"{_printable(column.name)}:" for column in response.columns]
    if not response.rows:
        yield Text(f"columns: {', '.join(name[:-1] for name in names)}"), True
    indent = max(map(cell_len, names), default=0) + 1
    for number, row in enumerate(response.rows, 1):
        yield Text(f"── row {number:,} ".ljust(width, "─"), "dim"), True
        for name, value in zip(names, row, strict=True):
            whole = _cell(value)
            is_long = len(whole) > _WORD_CHARS and indent + cell_len(whole) > width
            cell = _shortened(whole) if is_long else whole
            padding = " " * (indent - cell_len(name))
            line = Text.assemble((name, "bold"), padding, (cell, _style(value)))
            yield line, cell == whole


def _table(response: QueryResponse, cells: list[list[str]]) -> Table:
    """Numbers to the right."""
    table = Table()
    for column in response.columns:
        justify = "right" if _NUMERIC.fullmatch(column.type) else "left"
        table.add_column(Text(_printable(column.name)), justify=justify)  # type: ignore[arg-type]
    for values, row in zip(response.rows, cells, strict=True):
        table.add_row(*(Text(c, _style(v)) for c, v in zip(row, values, strict=True)))
    return table


def footer(facts: Facts, more: str = "--limit") -> str:
    """Rows, time, what was read, what was not shown. `more` says how to get the rest."""
    rows = count(facts.row_count, "row")
    if facts.truncated:
        rows = f"first {rows}, there are more ({more})"
    read = ", ".join(map(_pinned, facts.datasets))
    past = [each.replace("@", " at ") for each in facts.moments]
    parts = [rows, f"{facts.elapsed_ms:.0f} ms", read, *past, *_masked(facts)]
    return " · ".join(part for part in parts if part)


def json_lines(columns: list[QueryColumn], pages: Iterable[list[list[Any]]]) -> Iterator[str]:
    """An array of objects, a line each, as the pages come."""
    names = distinct([column.name for column in columns])
    before = "["
    for page in pages:
        for row in page:
            yield before + json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)
            before = ",\n "
    yield "[]\n" if before == "[" else "]\n"


def _masked(facts: Facts) -> list[str]:
    """By dataset: columns that were not shown."""
    columns: dict[str, list[str]] = {}
    for each in facts.masked:
        name, _, column = each.partition(".")
        columns.setdefault(name, []).append(_printable(column))
    return [f"{name}: {', '.join(each)} masked" for name, each in columns.items()]


def _pinned(used: str) -> str:
    name, _, version = used.rpartition("@")
    return f"{name}@{version[:_SHORT]}"


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dict | list | bool):
        return _printable(json.dumps(value, ensure_ascii=False))
    return _printable(str(value))


def _printable(text: str) -> str:
    """Data may hold terminal escapes: they are shown, never sent."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _style(value: Any) -> str:
    return "dim" if value is None else ""


def _shortened(cell: str) -> str:
    return f"{cell[:8]}…{cell[-6:]}" if _LONG_HEX.fullmatch(cell) else cell


def _natural_width(columns: list[QueryColumn], cells: list[list[str]]) -> int:
    widths = [
        max(cell_len(_printable(column.name)), *(cell_len(row[i]) for row in cells), 0)
        for i, column in enumerate(columns)
    ]
    return sum(width + 3 for width in widths) + 1
