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
from trace_platform.wire.query import QueryColumn, QueryFacts, QueryResponse, UsedDataset

_NUMERIC = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BIGNUM|FLOAT|DOUBLE|DECIMAL.*")
_LONG_HEX = re.compile(r"0x[0-9a-f]{17,}")
# A pipe has no width: nothing is shortened there.
_NO_TERMINAL_WIDTH = 100_000
# Of a version: enough to name it.
_SHORT = 8


def as_table(response: QueryResponse, width: int = _NO_TERMINAL_WIDTH) -> str:
    """Values unabridged, unless the table would not fit."""
    target = io.StringIO()
    Console(file=target, width=width).print(result_table(response, width))
    return target.getvalue()


def render_rows(console: Console, response: QueryResponse) -> None:
    """A table where one fits the terminal, else one record below the other."""
    if not console.is_terminal:
        console.file.write(as_table(response))
    elif _natural_width(response.columns, _shortened_cells(response)) <= console.width:
        console.print(result_table(response, console.width))
    else:
        for line in record_lines(response, console.width):
            console.print(line, soft_wrap=True)


def record_lines(response: QueryResponse, width: int) -> Iterator[Text]:
    """`column: value`, a line each. Long hex loses its middle where the line would not fit."""
    names = [f"{_printable(column.name)}:" for column in response.columns]
    indent = max(map(cell_len, names), default=0) + 1
    for number, row in enumerate(response.rows, 1):
        yield Text(f"── row {number:,} ".ljust(width, "─"), "dim")
        for name, value in zip(names, row, strict=True):
            cell = _cell(value)
            if indent + cell_len(cell) > width:
                cell = _shortened(cell)
            padding = " " * (indent - cell_len(name))
            yield Text.assemble((name, "bold"), padding, (cell, _style(value)))


def result_table(response: QueryResponse, width: int) -> Table:
    """Numbers to the right; long hex loses its middle when the table is wider than `width`."""
    cells = [[_cell(value) for value in row] for row in response.rows]
    if _natural_width(response.columns, cells) > width:
        cells = _shortened_cells(response)
    table = Table()
    for column in response.columns:
        justify = "right" if _NUMERIC.fullmatch(column.type) else "left"
        table.add_column(Text(_printable(column.name)), justify=justify)  # type: ignore[arg-type]
    for values, row in zip(response.rows, cells, strict=True):
        table.add_row(*(Text(c, _style(v)) for c, v in zip(row, values, strict=True)))
    return table


def footer(facts: QueryFacts | Facts, more: str = "--limit") -> str:
    """Rows, time, what was read, what was not shown. `more` says how to get the rest."""
    rows = f"{facts.row_count:,} row{'' if facts.row_count == 1 else 's'}"
    if facts.truncated:
        rows = f"first {rows}, there are more ({more})"
    read = ", ".join(map(_pinned, facts.datasets))
    parts = [rows, f"{facts.elapsed_ms:.0f} ms", read, *masked(facts)]
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


def masked(facts: QueryFacts | Facts) -> list[str]:
    """By dataset: columns that were not shown."""
    return [
        f"{used.name}: {', '.join(used.masked)} masked"
        for used in facts.datasets
        if isinstance(used, UsedDataset) and used.masked
    ]


def _pinned(used: UsedDataset | str) -> str:
    whole = used if isinstance(used, str) else f"{used.name}@{used.dataset_version}"
    name, _, version = whole.rpartition("@")
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


def _shortened_cells(response: QueryResponse) -> list[list[str]]:
    return [[_shortened(_cell(value)) for value in row] for row in response.rows]


def _shortened(cell: str) -> str:
    return f"{cell[:8]}…{cell[-6:]}" if _LONG_HEX.fullmatch(cell) else cell


def _natural_width(columns: list[QueryColumn], cells: list[list[str]]) -> int:
    widths = [
        max(cell_len(_printable(column.name)), *(cell_len(row[i]) for row in cells), 0)
        for i, column in enumerate(columns)
    ]
    return sum(width + 3 for width in widths) + 1
