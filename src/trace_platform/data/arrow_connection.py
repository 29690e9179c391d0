"""Arrow batches from and to Postgres, by ADBC."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress

import pyarrow as pa
from adbc_driver_manager import dbapi
from adbc_driver_postgresql import StatementOptions  # type: ignore[import-untyped]
from adbc_driver_postgresql import dbapi as postgres

from trace_platform.data.database import DataDatabase
from trace_platform.domain.errors import BadInput, DiskFull, Unavailable

_SNAPSHOT = re.compile(r"[0-9A-F]+(-[0-9A-F]+)+")
_BATCH_BYTES = 4 << 20


@contextmanager
def arrow_transaction(
    database: DataDatabase, snapshot_id: str | None = None
) -> Iterator[ArrowTransaction]:
    """Commits at the end of the block, rolls back when it raises. On a snapshot of another
    transaction's when it is given."""
    if snapshot_id is not None and not _SNAPSHOT.fullmatch(snapshot_id):
        raise BadInput("that is not the id of a snapshot")
    # What was not committed is rolled back with the connection.
    with closing(connect(database)) as connection:
        transaction = ArrowTransaction(connection)
        transaction.begin(snapshot_id)
        yield transaction
        transaction.run("COMMIT")


def connect(database: DataDatabase) -> dbapi.Connection:
    with _named_errors():
        connection: dbapi.Connection = postgres.connect(database.conninfo(), autocommit=True)
        return connection


class ArrowTransaction:
    def __init__(self, connection: dbapi.Connection) -> None:
        self.connection = connection
        self.is_cancelled = False

    def begin(self, snapshot_id: str | None) -> None:
        if snapshot_id is None:
            self.run("BEGIN")
            return
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.run(f"SET TRANSACTION SNAPSHOT '{snapshot_id}'")
        # Statistics of a table that just grew would have all of it read, and sorted.
        self.run("SET LOCAL enable_seqscan = off")

    def run(self, statement: str) -> None:
        with _named_errors(), self.connection.cursor() as cursor:
            cursor.execute(statement)

    def batches(self, query: str) -> Generator[pa.RecordBatch, None, None]:
        hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)}
        with _named_errors(), self.connection.cursor(adbc_stmt_kwargs=hint) as cursor:
            cursor.execute(query)
            with cursor.fetch_record_batch() as reader, _named_breaks():
                yield from reader

    def cancel(self) -> None:
        """End what runs, with an error where it is waited for. From any thread."""
        self.is_cancelled = True
        with suppress(dbapi.Error):  # nothing runs where Postgres is away
            self.connection.adbc_cancel()

    def close(self) -> None:
        self.connection.close()

    def append(self, table: str, rows: pa.RecordBatchReader) -> int:
        with _named_errors(), self.connection.cursor() as cursor:
            return int(cursor.adbc_ingest(table, rows, mode="append"))


@contextmanager
def _named_breaks() -> Iterator[None]:
    """Of a stream that has begun: Arrow tells of its end, in the driver's words."""
    try:
        yield
    except (pa.ArrowException, OSError):
        said = "Postgres data went away while rows were read"
        raise Unavailable(said, outage=True) from None


@contextmanager
def _named_errors() -> Iterator[None]:
    """The driver's messages are not repeated: they may hold a row's values."""
    try:
        yield
    except dbapi.Error as error:
        state = error.sqlstate or ""
        if "snapshot" in str(error):
            raise Unavailable("the snapshot that was to be read is gone") from None
        if state == "53100":
            raise DiskFull("Postgres data has no space left", hint="make room") from None
        if state[:2] in ("22", "23"):
            raise BadInput(f"Postgres data refuses a row (SQLSTATE {state})") from None
        said = f"Postgres data does not answer (SQLSTATE {state or 'none'})"
        raise Unavailable(said, outage=_is_away(state)) from None


def _is_away(state: str) -> bool:
    """No connection, too few resources, or somebody stopped it: not what the statement asks for."""
    return not state or state[:2] in ("08", "53", "57")
