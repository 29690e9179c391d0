"""Connections that only read, kept from one read to the next: opening one takes 50 ms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from adbc_driver_manager import dbapi
from psycopg.conninfo import make_conninfo

from trace_platform.data.arrow_connection import ArrowTransaction, connect
from trace_platform.data.database import DataDatabase
from trace_platform.domain.errors import Unavailable


class KeptConnections:
    """Threads may share it: each transaction has a connection to itself."""

    def __init__(
        self, database: DataDatabase, *, keep: int = 4, statement_s: float = 300.0
    ) -> None:
        self._database = replace(database, dsn=_limited(database.dsn, statement_s))
        self._keep = keep
        self._idle: list[dbapi.Connection] = []

    @contextmanager
    def snapshot(self) -> Iterator[ArrowTransaction]:
        """A transaction that reads all as of one moment, and ends with the block."""
        transaction = self._begun()
        try:
            yield transaction
        except BaseException:
            transaction.close()
            raise
        self._end(transaction)

    def close(self) -> None:
        while (connection := self._kept()) is not None:
            connection.close()

    def _begun(self) -> ArrowTransaction:
        while (connection := self._kept()) is not None:
            try:
                return _begin(connection)
            except Unavailable:
                continue  # Postgres was restarted since it was used last
        return _begin(connect(self._database))

    def _end(self, transaction: ArrowTransaction) -> None:
        """Nothing was written: should the end fail, what was read is right all the same."""
        try:
            transaction.run("COMMIT")
        except Unavailable:
            transaction.close()
            return
        # One that was cancelled is not used again: the next statement may be hit by it.
        if transaction.is_cancelled or len(self._idle) >= self._keep:
            transaction.close()
        else:
            self._idle.append(transaction.connection)

    def _kept(self) -> dbapi.Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None


def _begin(connection: dbapi.Connection) -> ArrowTransaction:
    transaction = ArrowTransaction(connection)
    try:
        transaction.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    except BaseException:
        transaction.close()
        raise
    return transaction


def _limited(dsn: str, statement_s: float) -> str:
    """With limits of its own: neither a statement nor a transaction is there for ever."""
    ms = int(statement_s * 1000)
    options = (
        f"-c statement_timeout={ms} -c idle_in_transaction_session_timeout={ms}"
        # Statistics that were taken while a table was small make it look cheap to read all of it.
        " -c lock_timeout=10s -c enable_seqscan=off -c jit=off"
    )
    return make_conninfo(
        dsn,
        connect_timeout=5,
        application_name="trace-query",
        options=options,
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=20_000,
    )
