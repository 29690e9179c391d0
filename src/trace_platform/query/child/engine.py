"""The second layer: a fresh DuckDB with only the views of one query, locked before it runs.

A file that a view reads can be read past the view, by `read_parquet` of its path: only the gate
forbids that. So no file is here of which the caller may see nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa

from trace_platform.domain.errors import Unavailable
from trace_platform.query.child import results
from trace_platform.query.child.explain import Explained
from trace_platform.query.child.explained_plan import planned
from trace_platform.query.child.marked import marked
from trace_platform.query.protocol import relation as views
from trace_platform.query.protocol.messages import Done, Limits, Relation, Run
from trace_platform.sql import catalog, database
from trace_platform.sql.gate import Statement
from trace_platform.sql.meaning import understood
from trace_platform.sql.relations import Column
from trace_platform.sql.sql_text import listed, quoted

_SPILLED = "spilled"


class Engine:
    """Runs one statement at a time, each in a database of its own."""

    def __init__(
        self, limits: Limits, scratch: str, binder: duckdb.DuckDBPyConnection | None = None
    ) -> None:
        """`binder` is a database without relations, in which a statement is bound to learn what its
        values mean; without one they are what DuckDB takes them for."""
        self._binder = binder
        self._limits = limits
        self._scratch = Path(scratch)
        self._spare: duckdb.DuckDBPyConnection | None = None
        self._used: duckdb.DuckDBPyConnection | None = None

    def prepare(self) -> None:
        """Between queries: drop the last database with all that it left, open the next one.

        That is most of a small query's cost, so it is paid while nobody waits.
        """
        self._drop_used()
        _empty(self._scratch)
        if self._spare is None:
            self._spare = self._open()

    def run(self, statement: Statement, run: Run, send: results.Send) -> Done:
        """The rows go to `send` as they are found. Raise a TraceError whose text never shows where
        rows lie."""
        self._drop_used()
        connection, self._spare = self._spare or self._open(), None
        self._used = connection
        explained = Explained(run.relations, self._limits, run.timeout_s, str(self._scratch))
        with explained.errors_of(statement):
            set_timeout(connection, run.timeout_s)
            masked = lock(connection, run.relations)
            if statement.reads_catalog:
                catalog.add(connection, run.catalog)
            if self._binder is not None:
                columns = _columns(connection, run.relations)
                statement = understood(self._binder, statement, columns)
            if statement.explaining is not None:
                statement = planned(connection, statement, run.relations, explained)
            elif statement.describes is not None:
                statement = marked(statement, masked[statement.describes])
            done = results.send_result(connection, statement.sql, run, self._limits, send)
        return msgspec.structs.replace(done, masked=masked)

    def _open(self) -> duckdb.DuckDBPyConnection:
        return open_database(self._limits, str(self._scratch / _SPILLED))

    def _drop_used(self) -> None:
        if self._used is not None:
            self._used.close()
            self._used = None


def open_database(limits: Limits, spill: str) -> duckdb.DuckDBPyConnection:
    connection = database.open_database(limits.memory_mb, limits.threads, spill)
    # A statement is bound several times on its way, and its files never change.
    connection.execute("SET parquet_metadata_cache = true")
    # Not above: DuckDB shows the limit then, but does not keep to it.
    connection.execute(f"SET max_temp_directory_size = '{limits.spill_mb}MiB'")
    set_timeout(connection, limits.timeout_s)
    return connection


def set_timeout(connection: duckdb.DuckDBPyConnection, timeout_s: float) -> None:
    connection.execute(f"SET max_execution_time = {max(1, int(timeout_s * 1000))}")


def lock(
    connection: duckdb.DuckDBPyConnection, relations: Sequence[Relation]
) -> dict[str, list[str]]:
    """Give the database its views, let it open their files and no others, and freeze that. By view,
    the columns that it masks."""
    files = sorted({path for each in relations for path in each.files})
    connection.execute(f"SET allowed_paths = {listed(files)}; SET enable_external_access = false")
    masked = {each.view: _create_view(connection, each) for each in relations}
    connection.execute("SET lock_configuration = true")
    return masked


def _create_view(connection: duckdb.DuckDBPyConnection, relation: Relation) -> list[str]:
    columns = relation.columns or _columns_of_files(connection, relation)
    hot, names = None, []
    if relation.hot is not None:
        table = _read_hot(relation.hot, relation.view)
        # Unmasked rows lie there: a name that cannot be guessed.
        hot, names = f"hot_{secrets.token_hex(16)}", table.column_names
        connection.register(hot, table)
    connection.execute(views.create_view(relation, columns, views.all_rows(relation, hot, names)))
    return views.masked_columns(relation, columns)


def _columns(
    connection: duckdb.DuckDBPyConnection, relations: Sequence[Relation]
) -> dict[str, Sequence[Column]]:
    return {
        each.view: each.columns or _described(connection, quoted(each.view)) for each in relations
    }


def _columns_of_files(connection: duckdb.DuckDBPyConnection, relation: Relation) -> list[Column]:
    return _described(connection, views.all_rows(relation, None))


def _described(connection: duckdb.DuckDBPyConnection, rows: str) -> list[Column]:
    described = connection.execute(f"DESCRIBE SELECT * FROM {rows}")
    return [Column(str(name), str(kind)) for name, kind, *_ in described.fetchall()]


def _read_hot(path: str, view: str) -> pa.Table:
    """Mapped, not read: the rows take no memory of the query's. DuckDB never opens the file."""
    try:
        with pa.memory_map(path) as file:
            return pa.ipc.open_file(file).read_all()
    except (OSError, pa.ArrowInvalid):
        raise Unavailable(
            f"the rows of {view} that are in Postgres could not be read", hint="run the query again"
        ) from None


def _empty(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            _remove(entry)


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(entry.path)
