"""Runs a statement, and shows what comes back or writes it to a file."""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from trace_platform.app.api_client.query_client import ask_rows, pages, save, whole
from trace_platform.cli.output_file import output_file
from trace_platform.cli.query_position import pointed
from trace_platform.cli.query_table import (
    SHORTENED,
    as_table,
    footer,
    json_lines,
    render_rows,
)
from trace_platform.cli.words import printable
from trace_platform.client.answer import Sink
from trace_platform.client.connection import Connection
from trace_platform.client.result import Facts
from trace_platform.domain.errors import BadInput, QueryTooLarge, TraceError
from trace_platform.wire.query import MAX_ROWS, QueryResponse


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"
    arrow = "arrow"
    parquet = "parquet"


BINARY = (Format.arrow, Format.parquet)


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    # None: as many as a person reads, or as fit into a file.
    limit: int | None = None
    # Datasets are read as they were then.
    at: str | None = None

    def query(self, **more: Any) -> dict[str, Any]:
        return {"sql": self.sql, "limit": self.limit, "at": self.at, **more}


def show(
    connection: Connection,
    statement: Statement,
    format: Format,
    *,
    timing: bool = False,
    more: str = "--limit",
) -> None:
    """On the standard output. `more` says how to get rows beyond the limit."""
    with _described(statement.sql), _timed(timing) as facts:
        if format in (Format.table, Format.json):
            first = ask_rows(connection, statement.query())
            facts.append(Facts.told(first))
            if format is Format.table:
                _show_table(whole(connection, first), facts[0], more)
                return
            _write_text(json_lines(first.columns, pages(connection, first)))
        else:
            facts.append(save(connection, statement.query(format=format.value), _output()))
        if facts[0].truncated or facts[0].masked:
            # Not on the output: that holds rows and nothing else.
            note(footer(facts[0], more))


def write(
    connection: Connection,
    statement: Statement,
    format: Format,
    file: Path,
    *,
    timing: bool = False,
) -> None:
    """To a file, which appears whole or not at all: all rows, unless there is a limit. Raise
    QueryTooLarge for more of them than JSON and tables get."""
    with _described(statement.sql), _timed(timing) as facts, output_file(file) as target:
        if format in (Format.table, Format.json):
            limit = statement.limit or MAX_ROWS
            first = ask_rows(connection, statement.query(limit=limit))
            facts.append(Facts.told(first))
            if first.truncated and statement.limit is None:
                raise QueryTooLarge(
                    f"the result has more than {MAX_ROWS:,} rows, and a {format} has no more",
                    hint="write .csv, .arrow or .parquet, which get all, or add a LIMIT",
                )
            if format is Format.table:
                target.write(as_table(whole(connection, first)).encode())
            else:
                target.writelines(
                    line.encode() for line in json_lines(first.columns, pages(connection, first))
                )
        else:
            facts.append(save(connection, statement.query(format=format.value), target))
    note(f"{file}: {footer(facts[0])}")


def format_of(file: Path) -> Format:
    """By the end of its name."""
    suffix = file.suffix.removeprefix(".").lower()
    if suffix == Format.table or suffix not in list(Format):
        raise BadInput(
            f"the name {file} does not tell the format",
            hint="give --format, or a name that ends in .json, .csv, .arrow or .parquet",
        )
    return Format(suffix)


def note(text: str) -> None:
    typer.echo(text, err=True)


def say_wait(wait_s: float, refusal: TraceError) -> None:
    note(f"{refusal.message}: asking again in {wait_s:g} s")


def _show_table(response: QueryResponse, facts: Facts, more: str) -> None:
    console = Console()
    is_shortened = render_rows(console, response)
    line = footer(facts, more) + (f" · {SHORTENED}" if is_shortened else "")
    console.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _described(sql: str) -> Iterator[None]:
    try:
        yield
    except TraceError as error:
        raise pointed(error, sql) from None


@contextmanager
def _timed(wanted: bool) -> Iterator[list[Facts]]:
    """Give it what the service says of the query."""
    began = time.perf_counter()
    facts: list[Facts] = []
    yield facts
    if wanted:
        in_all = (time.perf_counter() - began) * 1000
        note(f"{facts[0].elapsed_ms:.1f} ms in the service, {in_all:.1f} ms in all")


def _output() -> Sink:
    return _Terminal() if sys.stdout.isatty() else sys.stdout.buffer


def _write_text(lines: Iterator[str]) -> None:
    target = _output()
    for line in lines:
        target.write(line.encode())


class _Terminal:
    """Data may hold terminal escapes: they are shown, never sent."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        sys.stdout.write(printable(self._decoder.decode(data)))
