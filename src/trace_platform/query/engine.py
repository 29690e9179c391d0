"""The second layer: a fresh DuckDB with only the views of one query, locked before it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import duckdb
import msgspec

from trace_platform.domain.errors import InvalidQuery, NotFound, TraceError, Unavailable
from trace_platform.query import rows as json_rows
from trace_platform.query.messages import Answer, Column, Limits

_CHUNK_ROWS = 2_000

Tables = Mapping[str, Sequence[str]]


class Engine:
    """Runs one statement at a time, each in a database of its own."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._spare: duckdb.DuckDBPyConnection | None = None
        self._used: duckdb.DuckDBPyConnection | None = None

    def prepare(self) -> None:
        """Between queries: drop the last database, open the next one.

        That is most of a small query's cost, so it is paid while nobody waits.
        """
        if self._used is not None:
            self._used.close()
            self._used = None
        if self._spare is None:
            self._spare = open_database(self._limits)

    def run(self, sql: str, tables: Tables, limit: int) -> Answer:
        """At most `limit` rows. Raise a TraceError whose text never shows where files are."""
        self.prepare()
        connection, self._spare = self._spare, None
        assert connection is not None
        try:
            lock(connection, tables)
            return _fetch(connection.execute(sql), limit, self._limits.result_bytes)
        except duckdb.Error as error:
            raise explain(error, tables, self._limits) from None
        except MemoryError:
            raise _out_of_memory(self._limits) from None
        finally:
            self._used = connection


def open_database(limits: Limits) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_unsigned_extensions": False,
            "allow_persistent_secrets": False,
            "python_enable_replacements": False,
            "memory_limit": f"{limits.memory_mb}MiB",
            "threads": limits.threads,
            # Nothing spills: the child cannot write a file.
            "temp_directory": "",
            "max_temp_directory_size": "0B",
            "max_execution_time": int(limits.timeout_s * 1000),
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def lock(connection: duckdb.DuckDBPyConnection, tables: Tables) -> None:
    """Give the database its views, let it open their files and no others, and freeze that."""
    files = sorted({path for paths in tables.values() for path in paths})
    connection.execute(f"SET allowed_paths = {_list(files)}")
    connection.execute("SET enable_external_access = false")
    for name, paths in tables.items():
        source = f"read_parquet({_list(paths)}, hive_partitioning = false, union_by_name = true)"
        # A view takes no parameters; both parts are quoted.
        connection.execute(f"CREATE VIEW {_quoted(name)} AS SELECT * FROM {source}")
    connection.execute("SET lock_configuration = true")


def _fetch(result: duckdb.DuckDBPyConnection, limit: int, max_bytes: int) -> Answer:
    described = result.description or []
    columns = [Column(str(name), str(kind)) for name, kind, *_ in described]
    types = [column.type for column in columns]
    chunks: list[bytes] = []
    count = size = 0
    while count < limit:
        found = result.fetchmany(min(_CHUNK_ROWS, limit - count))
        if not found:
            break
        chunks.append(json_rows.encode(found, types))
        count += len(found)
        size += len(chunks[-1]) + 1
        if size > max_bytes:
            raise InvalidQuery(
                f"the result is larger than {max_bytes >> 20} MiB",
                hint="select fewer columns, aggregate, or ask for fewer rows",
            )
    # Streamed, so one more row costs nothing and `truncated` is never a guess.
    truncated = count == limit and bool(result.fetchmany(1))
    return Answer(columns, msgspec.Raw(b"[" + b",".join(chunks) + b"]"), count, truncated)


def explain(error: duckdb.Error, tables: Tables, limits: Limits) -> TraceError:
    """DuckDB's error as ours: its words and candidates are kept, paths are not."""
    if isinstance(error, duckdb.InterruptException):
        return timed_out(limits)
    if isinstance(error, duckdb.OutOfMemoryException):
        return _out_of_memory(limits)
    if isinstance(error, duckdb.IOException | duckdb.PermissionException):
        return _unreadable(tables)
    return InvalidQuery(_without_paths(str(error), tables))


def _unreadable(tables: Tables) -> TraceError:
    # DuckDB calls a missing file forbidden: it cannot find it among the allowed ones.
    lost = [name for name, paths in tables.items() if not all(map(os.path.exists, paths))]
    if lost:
        return Unavailable(
            f"a file of {', '.join(lost)} is gone",
            hint="run the query again: the dataset may just have been rebuilt",
        )
    return InvalidQuery("a query cannot reach files, settings or the network")


def timed_out(limits: Limits) -> InvalidQuery:
    return InvalidQuery(
        f"the query ran longer than {limits.timeout_s:g} s and was stopped",
        hint="read fewer rows: filter on a block range or aggregate in steps",
        timeout_s=limits.timeout_s,
    )


def _out_of_memory(limits: Limits) -> InvalidQuery:
    return InvalidQuery(
        f"the query needs more than {limits.memory_mb} MiB of memory",
        hint="read fewer rows or columns, or aggregate before joining",
        memory_mb=limits.memory_mb,
    )


def no_data(name: str) -> NotFound:
    return NotFound(
        f"the dataset {name!r} has no committed data yet",
        hint="wait for the job that writes it, or see `trace tasks list`",
    )


def _without_paths(text: str, tables: Tables) -> str:
    for name, paths in tables.items():
        for path in paths:
            text = text.replace(path, name)
    return text


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join("'" + v.replace("'", "''") + "'" for v in values) + "]"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
