"""The rows of a query that are in Postgres: exactly those, in a file that its child can read."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from uuid import UUID

import pyarrow as pa

from trace_platform.data.arrow_connection import ArrowTransaction
from trace_platform.data.columns import Column, schema_of, select_list
from trace_platform.data.hot_reader import ReadTable, tables_in
from trace_platform.data.hot_rows import BLOCK, table_name
from trace_platform.data.kept_connections import KeptConnections
from trace_platform.domain.errors import InternalError, QueryCanceled, QueryTooLarge
from trace_platform.query.protocol.messages import Scan
from trace_platform.query.service.disk_full import disk_full
from trace_platform.query.service.hot_filters import conditions
from trace_platform.sql import relations

# As a statement sees them. A numeric is text: it may be larger than any number of DuckDB's.
_DUCKDB = {
    "bigint": "BIGINT",
    "bytea": "BLOB",
    "text": "VARCHAR",
    "double precision": "DOUBLE",
    "boolean": "BOOLEAN",
    "numeric": "VARCHAR",
}
_CANCEL_EVERY_S = 0.05


@contextmanager
def open_tables(connections: KeptConnections, versions: Sequence[UUID]) -> Iterator[HotTables]:
    """All tables as of one moment, with the first block of each. The moment ends with the block,
    and with it a read that another thread is still at. Raise Unavailable while Postgres is away."""
    with connections.snapshot() as transaction:
        tables = HotTables(transaction, tables_in(transaction, versions))
        try:
            yield tables
        finally:
            tables.stop()


class HotTables:
    """Of the generations that were asked for those that have a table; one reader at a time."""

    def __init__(self, transaction: ArrowTransaction, tables: Mapping[UUID, ReadTable]) -> None:
        self._transaction = transaction
        self._tables = tables
        self._reading = threading.Lock()
        self._stopped = False

    def columns(self, version: UUID) -> list[relations.Column]:
        """Empty: the generation has no table."""
        found = self._tables.get(version)
        known = found.columns if found else []
        return [relations.Column(each["name"], _DUCKDB[each["type"]]) for each in known]

    def seam(self, version: UUID) -> int | None:
        """The first block that the table answers for. None: it is empty, or there is none."""
        found = self._tables.get(version)
        return found.first_block if found else None

    def origin(self, version: UUID) -> int | None:
        """The lowest block that the table ever had."""
        found = self._tables.get(version)
        return found.origin_block if found else None

    def write(self, version: UUID, scan: Scan, path: Path, max_bytes: int) -> int:
        """The rows that the scan asks for, as an Arrow file at `path`, where there is none yet. How
        many they are; QueryTooLarge for more than `max_bytes`. What fails leaves no file."""
        table = self._tables[version]
        columns = _wanted(table.columns, scan.columns)
        query = _query(version, table, columns, scan)
        with self._reading:
            if self._stopped:
                raise QueryCanceled("the query ended before its rows were read")
            batches = self._transaction.batches(query)
            try:
                return _write(path, schema_of(columns), batches, max_bytes)
            except BaseException:
                # What is left of the answer is not worth its way here.
                self._transaction.cancel()
                raise
            finally:
                batches.close()

    def stop(self) -> None:
        """Nothing is read after this."""
        self._stopped = True
        while not self._reading.acquire(timeout=_CANCEL_EVERY_S):
            # Again and again: one that comes before the statement does ends nothing.
            self._transaction.cancel()
        self._reading.release()


def _wanted(known: list[Column], names: Sequence[str] | None) -> list[Column]:
    """In the table's order; one at least, so that there are rows to count."""
    if names is None:
        return known
    if unknown := set(names) - {column["name"] for column in known}:
        raise InternalError(
            f"the plan of a query asks for {len(unknown)} columns that no table has"
        )
    asked = set(names) or {BLOCK}
    return [column for column in known if column["name"] in asked]


def _query(version: UUID, table: ReadTable, columns: list[Column], scan: Scan) -> str:
    seam = "false" if table.first_block is None else f"{BLOCK} >= {table.first_block:d}"
    where = " AND ".join([seam, *conditions(scan.filters, table.columns)])
    return f"SELECT {select_list(columns)} FROM {table_name(version)} WHERE {where}"


def _write(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch], max_bytes: int) -> int:
    rows = size = 0
    with _new_file(path) as file, pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            size += batch.nbytes
            if size > max_bytes:
                raise _too_large()
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
            rows += batch.num_rows
    return rows


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """The folder is one that the child can write: what it may have put there is not followed."""
    with disk_full("the rows of a query"), open(path, "xb") as file:
        _give_to_owner_of(path.parent, file)
        try:
            yield file
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _give_to_owner_of(folder: Path, file: IO[bytes]) -> None:
    """As root the child is another user, and what we make is for its owner alone."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(file.fileno(), owner.st_uid, owner.st_gid)


def _too_large() -> QueryTooLarge:
    return QueryTooLarge(
        "the statement needs more of the rows that are still in Postgres than a query may have",
        hint="filter on a range of block_number, or name fewer columns;"
        " a query_export job takes a dataset range by range",
    )
