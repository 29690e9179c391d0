"""A connection to Postgres data that is kept, and replaced when it broke."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType

import psycopg
from psycopg.rows import dict_row

from trace_platform.data.database import DataDatabase
from trace_platform.data.sync_queries import SyncTx
from trace_platform.domain.errors import BadInput, DiskFull, Unavailable

# Statistics that were taken while a table was small make it look cheap to read all of it. A
# process that stopped in the middle must not keep its locks from the attempt that takes over.
_OPTIONS = (
    "-c enable_seqscan=off -c jit=off -c lock_timeout=30s"
    " -c idle_in_transaction_session_timeout=30s"
)


class DataConnection:
    """Transactions on Postgres data, for one thread. Connects when it is first used."""

    def __init__(self, database: DataDatabase, name: str, options: str = _OPTIONS) -> None:
        self._database = database
        self._name = name
        self._options = options
        self._connection: SyncTx | None = None

    @contextmanager
    def transaction(self) -> Iterator[SyncTx]:
        """Commits at the end of the block, rolls back when it raises."""
        with named_errors(), ExitStack() as stack:
            yield self._begin(stack)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> DataConnection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, stack: ExitStack) -> SyncTx:
        kept = self._connection is not None
        connection = self._open()
        try:
            stack.enter_context(connection.transaction())
        except psycopg.OperationalError:
            # Broken since it was used last, by a restart of Postgres: nothing was begun yet.
            if not kept or not connection.closed:
                raise
            connection = self._open()
            stack.enter_context(connection.transaction())
        return connection

    def _open(self) -> SyncTx:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._database.conninfo(),
                row_factory=dict_row,
                autocommit=True,
                connect_timeout=5,
                application_name=self._name,
                options=self._options,
                prepare_threshold=1,
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=20_000,
            )
        return self._connection


@contextmanager
def named_errors() -> Iterator[None]:
    """What Postgres says, as an error of ours. No message holds a connection string."""
    try:
        yield
    except psycopg.errors.DiskFull as error:
        raise DiskFull(
            "Postgres data has no space left", hint="make room; it is tried again"
        ) from error
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise BadInput(f"Postgres data refuses it: {_said(error)}") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unavailable(
            "Postgres data does not answer",
            hint="trace status shows whether it is running",
            outage=True,
        ) from error


def _said(error: psycopg.Error) -> str:
    """Without the values of the row."""
    return error.diag.message_primary or type(error).__name__
