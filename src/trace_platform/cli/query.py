"""`trace query`: one SELECT over published datasets, as a table, JSON, CSV, Arrow or Parquet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trace_platform.app.api_client.query_client import connect
from trace_platform.app.instance.home import Home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.output_file import check_writable
from trace_platform.cli.query_output import (
    BINARY,
    Format,
    Statement,
    format_of,
    note,
    say_wait,
    show,
    write,
)
from trace_platform.cli.signals import end_on_signals
from trace_platform.domain.errors import BadInput
from trace_platform.wire.query import MAX_ROWS

AtOption = Annotated[
    str | None,
    typer.Option(
        metavar="MOMENT",
        help="Read the datasets as they were at a time, such as 2026-01-31T12:00Z, or when a deploy"
        " or a version of a DAG took over, by its id; or one generation, by its id. NAME@VERSION in"
        " the SQL goes before it.",
    ),
]


def query(
    sql: Annotated[
        str, typer.Argument(help="One SELECT statement; '-' or nothing reads it from the input.")
    ] = "-",
    home: HomeOption = None,
    format: Annotated[
        Format | None, typer.Option(help="Default: by the name of --output, else a table.")
    ] = None,
    as_json: JsonOption = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_ROWS, help="At most this many rows. Default: 1000 shown, all written."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the result to this file; '-' is standard output.")
    ] = None,
    at: AtOption = None,
    timing: Annotated[bool, typer.Option("--timing", help="Say how long it took.")] = False,
) -> None:
    """Query published datasets with SQL.

    In the SQL, a dataset is its name; NAME@VERSION is one generation of it, by the beginning of
    its id (`trace datasets versions NAME`). Ctrl-C stops the query.
    """
    file = None if output is None or str(output) == "-" else output
    chosen = _chosen(format, as_json) or (format_of(file) if file else Format.table)
    _check_target(file, chosen)  # now: a query may take a minute
    statement = Statement(_statement(sql), limit, at)
    with end_on_signals(), connect(Home.at(home), say_wait) as connection:
        if file is None:
            show(connection, statement, chosen, timing=timing)
        else:
            write(connection, statement, chosen, file, timing=timing)


def _statement(sql: str) -> str:
    text = _read_input() if sql == "-" else sql
    if not text.strip():
        raise BadInput("there is no SQL to run", hint='trace query "select count(*) from blocks"')
    return text


def _read_input() -> str:
    if sys.stdin.isatty():
        note("reading SQL from the terminal until Ctrl-D")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise BadInput("the input is not text", hint="SQL is read as UTF-8") from None


def _chosen(format: Format | None, as_json: bool) -> Format | None:
    if as_json and format not in (None, Format.json):
        raise typer.BadParameter(f"--json and --format {format} contradict each other")
    return Format.json if as_json else format


def _check_target(file: Path | None, format: Format) -> None:
    if file is not None:
        check_writable(file)
    elif format in BINARY and sys.stdout.isatty():
        raise BadInput(
            f"{format} is not for a terminal",
            hint=f"give --output FILE.{format}, or pipe it into a program",
        )
