"""`trace query`: one SELECT over published datasets, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trace_platform.app.home import Home
from trace_platform.app.query_client import run_query
from trace_platform.cli.options import HomeOption
from trace_platform.domain.errors import BadInput
from trace_platform.wire.query import MAX_ROWS, QueryColumn, QueryResponse

_NUMERIC = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BIGNUM|FLOAT|DOUBLE|DECIMAL.*")
_LONG_HEX = re.compile(r"0x[0-9a-f]{17,}")
# A pipe has no width: nothing is shortened there.
_NO_TERMINAL_WIDTH = 100_000


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


def query(
    sql: Annotated[
        str, typer.Argument(help="One SELECT statement; '-' or nothing reads it from the input.")
    ] = "-",
    home: HomeOption = None,
    format: Annotated[
        Format | None, typer.Option(help="Default: by the name of --output, else a table.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="At most this many rows.")] = 1000,
    output: Annotated[Path | None, typer.Option(help="Write the result to this file.")] = None,
) -> None:
    """Query published datasets with SQL."""
    response = run_query(Home.at(home), _statement(sql), limit)
    chosen = format or _format_of(output)
    if output is not None:
        output.write_text(render(response, chosen, _NO_TERMINAL_WIDTH), newline="")
        notes = Console(stderr=True)
        notes.print(f"{output}: {footer(response)}", highlight=False, markup=False)
        return
    terminal = Console()
    width = terminal.width if terminal.is_terminal else _NO_TERMINAL_WIDTH
    if chosen is Format.table:
        Console(width=width).print(result_table(response, width))
        terminal.print(footer(response), style="dim", highlight=False, markup=False)
        return
    sys.stdout.write(render(response, chosen, width))
    if response.truncated:
        # Not on the output: that holds rows and nothing else.
        Console(stderr=True).print(footer(response), highlight=False, markup=False)


def render(response: QueryResponse, format: Format, width: int) -> str:
    """The whole result as text, values unabridged unless a table would not fit."""
    if format is Format.json:
        return _as_json(response)
    if format is Format.csv:
        return _as_csv(response)
    target = io.StringIO()
    Console(file=target, width=width).print(result_table(response, width))
    return target.getvalue()


def result_table(response: QueryResponse, width: int) -> Table:
    """Numbers to the right; long hex loses its middle when the table is wider than `width`."""
    cells = [[_cell(value) for value in row] for row in response.rows]
    if _natural_width(response.columns, cells) > width:
        cells = [[_shortened(cell) for cell in row] for row in cells]
    table = Table()
    for column in response.columns:
        justify = "right" if _NUMERIC.fullmatch(column.type) else "left"
        table.add_column(Text(_printable(column.name)), justify=justify)  # type: ignore[arg-type]
    for values, row in zip(response.rows, cells, strict=True):
        styles = ["dim" if value is None else "" for value in values]
        table.add_row(*(Text(cell, style) for cell, style in zip(row, styles, strict=True)))
    return table


def footer(response: QueryResponse) -> str:
    rows = f"{response.row_count:,} row{'' if response.row_count == 1 else 's'}"
    if response.truncated:
        rows = f"first {rows}, there are more (--limit)"
    parts = [rows, f"{response.elapsed_ms:.0f} ms", ", ".join(response.datasets)]
    return " · ".join(part for part in parts if part)


def _statement(sql: str) -> str:
    text = sys.stdin.read() if sql == "-" else sql
    if not text.strip():
        raise BadInput("there is no SQL to run", hint='trace query "select count(*) from blocks"')
    return text


def _format_of(output: Path | None) -> Format:
    suffix = output.suffix.removeprefix(".") if output else ""
    return Format(suffix) if suffix in (Format.json, Format.csv) else Format.table


def _as_json(response: QueryResponse) -> str:
    names = _distinct([column.name for column in response.columns])
    lines = [
        json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in response.rows
    ]
    return "[" + ",\n ".join(lines) + "]\n"


def _as_csv(response: QueryResponse) -> str:
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow([column.name for column in response.columns])
    writer.writerows([_csv_value(value) for value in row] for row in response.rows)
    return target.getvalue()


def _csv_value(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list | bool) else value


def _distinct(names: list[str]) -> list[str]:
    """Names as keys: the second `x` becomes `x_1`, so that no column hides another."""
    keys: dict[str, None] = {}
    for name in names:
        key, n = name, 0
        while key in keys:
            n += 1
            key = f"{name}_{n}"
        keys[key] = None
    return list(keys)


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


def _shortened(cell: str) -> str:
    return f"{cell[:8]}…{cell[-6:]}" if _LONG_HEX.fullmatch(cell) else cell


def _natural_width(columns: list[QueryColumn], cells: list[list[str]]) -> int:
    widths = [
        max(len(column.name), *(len(row[i]) for row in cells), 0)
        for i, column in enumerate(columns)
    ]
    return sum(width + 3 for width in widths) + 1
