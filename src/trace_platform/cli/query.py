"""`trace query`: one SELECT over published datasets, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trace_platform.app.home import Home
from trace_platform.app.query_client import run_query
from trace_platform.cli.options import HomeOption, JsonOption
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
    as_json: JsonOption = False,
    limit: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="At most this many rows.")] = 1000,
    output: Annotated[
        Path | None, typer.Option(help="Write the result to this file; '-' is standard output.")
    ] = None,
) -> None:
    """Query published datasets with SQL."""
    file = None if output is None or str(output) == "-" else output
    chosen = _chosen(format, as_json) or _format_of(file)
    if file is not None:
        _check_writable(file)  # now: a query may take a minute
    response = run_query(Home.at(home), _statement(sql), limit)
    if file is not None:
        _write(file, render(response, chosen))
        _note(f"{file}: {footer(response)}")
    elif chosen is Format.table:
        _show(response)
    else:
        sys.stdout.write(render(response, chosen))
        if response.truncated:
            # Not on the output: that holds rows and nothing else.
            _note(footer(response))


def render(response: QueryResponse, format: Format, width: int = _NO_TERMINAL_WIDTH) -> str:
    """The whole result as text, values unabridged unless a table would not fit."""
    if format is Format.json:
        return _as_json(response)
    if format is Format.csv:
        return _as_csv(response)
    target = io.StringIO()
    Console(file=target, width=width).print(result_table(response, width))
    return target.getvalue()


def render_rows(console: Console, response: QueryResponse) -> None:
    """A table where one fits the terminal, else one record below the other."""
    if not console.is_terminal:
        console.file.write(render(response, Format.table))
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


def footer(response: QueryResponse) -> str:
    rows = f"{response.row_count:,} row{'' if response.row_count == 1 else 's'}"
    if response.truncated:
        rows = f"first {rows}, there are more (--limit)"
    parts = [rows, f"{response.elapsed_ms:.0f} ms", ", ".join(response.datasets)]
    return " · ".join(part for part in parts if part)


def _show(response: QueryResponse) -> None:
    console = Console()
    render_rows(console, response)
    console.print(footer(response), style="dim", highlight=False, markup=False, soft_wrap=True)


def _note(text: str) -> None:
    typer.echo(text, err=True)


def _statement(sql: str) -> str:
    text = _read_input() if sql == "-" else sql
    if not text.strip():
        raise BadInput("there is no SQL to run", hint='trace query "select count(*) from blocks"')
    return text


def _read_input() -> str:
    if sys.stdin.isatty():
        _note("reading SQL from the terminal until Ctrl-D")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise BadInput("the input is not text", hint="SQL is read as UTF-8") from None


def _chosen(format: Format | None, as_json: bool) -> Format | None:
    if as_json and format not in (None, Format.json):
        raise typer.BadParameter(f"--json and --format {format} contradict each other")
    return Format.json if as_json else format


def _format_of(file: Path | None) -> Format:
    if file is None:
        return Format.table
    suffix = file.suffix.removeprefix(".").lower()
    if suffix not in (Format.json, Format.csv):
        raise BadInput(
            f"the name {file} does not tell the format",
            hint="give --format, or a name that ends in .json or .csv",
        )
    return Format(suffix)


def _check_writable(file: Path) -> None:
    if file.is_dir():
        raise BadInput(f"{file} is a directory", hint="give --output the name of a file")
    if not file.parent.is_dir():
        raise BadInput(f"there is no folder {file.parent}", hint="make it first")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise BadInput(f"{file} cannot be written", hint="choose another place, or mend its rights")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}") from None


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
