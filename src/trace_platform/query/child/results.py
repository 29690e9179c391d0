"""The rows of a statement on their way out: pages of JSON, or the bytes of one file.

Rows stream: what is held is one page, or a few batches, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from trace_platform.domain.errors import QueryTooLarge
from trace_platform.query.child import rows
from trace_platform.query.protocol.messages import CHUNK_BYTES, Done, Limits, Run
from trace_platform.sql import result_columns
from trace_platform.sql.mistakes import DESCRIBE_FROM, FROM
from trace_platform.sql.relations import Column
from trace_platform.sql.sql_text import quoted, without_semicolon
from trace_platform.wire.parquet_writer import open_writer

Send = Callable[[bytes], None]

_FETCH_ROWS = 8_192
_BATCH_ROWS = 32_768
_ROW_GROUP_ROWS = 131_072
_ROW_GROUP_BYTES = 32 << 20
_EXPRESSIONS: dict[str, result_columns.Expression] = {
    "json": result_columns.for_json,
    "csv": result_columns.for_csv,
    "arrow": result_columns.for_arrow,
    "parquet": result_columns.for_arrow,
}


def send_result(
    connection: duckdb.DuckDBPyConnection, sql: str, run: Run, limits: Limits, send: Send
) -> Done:
    """Run the statement in a database that is locked."""
    sql = without_semicolon(sql)
    columns = _describe(connection, sql)
    kinds = [connection.dtype(column.type) for column in columns]
    statement = _statement(sql, columns, kinds, run)
    cut = _Cut(run.limit)
    if run.format in ("json", "csv"):
        found = _fetched(connection.execute(statement), cut)
        if run.format == "json":
            _send_json(found, _special(kinds), run.page_rows, limits.page_bytes, send)
        else:
            _send_csv(found, _special(kinds), columns, send)
    else:
        reader = connection.sql(statement).to_arrow_reader(_BATCH_ROWS)
        write = _send_arrow if run.format == "arrow" else _send_parquet
        write(_batches(reader, cut), reader.schema, send)
    return Done(columns=columns, row_count=cut.count, truncated=cut.truncated)


def _describe(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Column]:
    described = connection.execute(f"{DESCRIBE_FROM}{sql}\n)").fetchall()
    return [Column(str(name), str(kind)) for name, kind, *_ in described]


def _statement(sql: str, columns: Sequence[Column], kinds: Sequence[DuckDBPyType], run: Run) -> str:
    expression = _EXPRESSIONS[run.format]
    values = ", ".join(
        f"{expression(f'#{n}', kind)} AS {quoted(column.name)}"
        for n, (column, kind) in enumerate(zip(columns, kinds, strict=True), 1)
    )
    # One row more, so that `truncated` is never a guess.
    limit = "" if run.limit is None else f" LIMIT {run.limit + 1:d}"
    return f"{FROM}{sql}\n) SELECT {values}{limit}"


def _special(kinds: Sequence[DuckDBPyType]) -> rows.Special:
    return rows.Special(
        floats=[at for at, kind in enumerate(kinds) if kind.id in result_columns.FLOATS],
        nested=[at for at, kind in enumerate(kinds) if kind.id in result_columns.NESTED],
    )


class _Cut:
    """Counts rows, up to a limit."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self.count = 0
        self.truncated = False

    def take(self, found: int) -> int:
        """How many of the next `found` rows count."""
        kept = found if self._limit is None else min(found, self._limit - self.count)
        self.truncated = self.truncated or kept < found
        self.count += kept
        return kept


def _fetched(result: duckdb.DuckDBPyConnection, cut: _Cut) -> Iterator[list[Any]]:
    while found := result.fetchmany(_FETCH_ROWS):
        if kept := cut.take(len(found)):
            yield found[:kept]


def _batches(reader: pa.RecordBatchReader, cut: _Cut) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        if kept := cut.take(batch.num_rows):
            yield batch.slice(0, kept)


def _send_json(
    found: Iterator[list[Any]], special: rows.Special, page_rows: int, page_bytes: int, send: Send
) -> None:
    parts: list[bytes] = []
    count = size = 0
    for some in _pieces(found, page_rows):
        parts.append(rows.to_json(some, special))
        count, size = count + len(some), size + len(parts[-1]) + 1
        if size > page_bytes:
            raise QueryTooLarge(
                f"a page of the result is larger than {page_bytes >> 20} MiB",
                hint="ask for fewer columns, for shorter pages (page_rows), or for another format",
                page_bytes=page_bytes,
            )
        if count == page_rows:
            send(b"[" + b",".join(parts) + b"]")
            parts, count, size = [], 0, 0
    if parts:
        send(b"[" + b",".join(parts) + b"]")


def _pieces(found: Iterator[list[Any]], page_rows: int) -> Iterator[list[Any]]:
    """The same rows, cut where a page ends."""
    room = page_rows
    for some in found:
        while some:
            piece, some = some[:room], some[room:]
            room = room - len(piece) or page_rows
            yield piece


def _send_csv(
    found: Iterator[list[Any]], special: rows.Special, columns: Sequence[Column], send: Send
) -> None:
    chunks = _Chunks(send)
    chunks.write(rows.to_csv([[column.name for column in columns]], rows.Special()))
    for some in found:
        chunks.write(rows.to_csv(some, special))
    chunks.close()


def _send_arrow(batches: Iterator[pa.RecordBatch], schema: pa.Schema, send: Send) -> None:
    chunks = _Chunks(send)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(pa.PythonFile(chunks, "w"), schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    chunks.close()


def _send_parquet(batches: Iterator[pa.RecordBatch], schema: pa.Schema, send: Send) -> None:
    chunks = _Chunks(send)
    with open_writer(pa.PythonFile(chunks, "w"), schema) as writer:
        for group in _row_groups(batches):
            writer.write_table(pa.Table.from_batches(group), row_group_size=_ROW_GROUP_ROWS)
    chunks.close()


def _row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        group.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if count >= _ROW_GROUP_ROWS or size >= _ROW_GROUP_BYTES:
            yield group
            group, count, size = [], 0, 0
    if group:
        yield group


class _Chunks:
    """A file that is sent away piece by piece."""

    closed = False

    def __init__(self, send: Send) -> None:
        self._send = send
        self._held = bytearray()

    def write(self, data: bytes) -> int:
        self._held += data
        if len(self._held) >= CHUNK_BYTES:
            self._let_go()
        return len(data)

    def flush(self) -> None:
        """A chunk is sent when it is full."""

    def close(self) -> None:
        if self._held:
            self._let_go()

    def _let_go(self) -> None:
        self._send(bytes(self._held))
        self._held.clear()
