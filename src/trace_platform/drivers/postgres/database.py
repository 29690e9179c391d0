"""An async connection pool. Its verbs: a transaction, and a statement that is one by itself."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

import msgspec
import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from trace_platform.domain.errors import BadInput, Unavailable
from trace_platform.drivers.postgres.queries import Tx

# Statements here touch few rows and find each by an index. Statistics that were taken while a queue
# was empty make it look cheap to read all of it, or to join with all of it: it is not, an hour
# later. Compiling takes longer than running, and one that hangs would hold its locks against
# everybody.
_OPTIONS = (
    "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off"
    " -c statement_timeout=60s -c idle_in_transaction_session_timeout=15s"
)
# A connection that was good this long ago is not asked whether it still is.
_TRUSTED_S = 1.0


class Database:
    """Transactions on one database. A lost connection is Unavailable, and is replaced."""

    def __init__(self, dsn: str, *, max_connections: int = 16, wait_s: float = 10) -> None:
        self._used_at: WeakKeyDictionary[Tx, float] = WeakKeyDictionary()
        self._pool: AsyncConnectionPool[Tx] = AsyncConnectionPool(
            dsn,
            min_size=1,
            max_size=max_connections,
            timeout=wait_s,
            kwargs={
                "row_factory": dict_row,
                "connect_timeout": 5,
                "autocommit": True,
                "options": _OPTIONS,
                # A server that is gone without a word is noticed in seconds.
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": 20_000,
                "context": _adapters(),
            },
            check=self._check,
            open=False,
        )

    async def open(self) -> None:
        await self._pool.open(wait=False)

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """Commits at the end of the block, rolls back when it raises."""
        async with self.statement() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Tx]:
        """For exactly one statement: it commits by itself, without a round trip for that."""
        try:
            async with self._pool.connection() as connection:
                yield connection
                self._used_at[connection] = time.monotonic()
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
            raise Unavailable("two changes met in the database", hint="try again") from error
        except psycopg.DataError as error:
            # A value that no column can hold, such as text with a NUL character.
            said = error.diag.message_primary or str(error)
            raise BadInput(f"a value cannot be stored: {said}") from error
        except (psycopg.OperationalError, PoolTimeout) as error:
            raise Unavailable(
                "Postgres does not answer", hint="trace status shows whether it is running"
            ) from error

    async def _check(self, connection: Tx) -> None:
        if time.monotonic() - self._used_at.get(connection, 0.0) > _TRUSTED_S:
            await AsyncConnectionPool.check_connection(connection)


def _adapters() -> AdaptersMap:
    """JSON is read several times faster than by the standard library, on these connections."""
    adapters = AdaptersMap(psycopg.adapters)
    set_json_loads(msgspec.json.decode, adapters)
    return adapters
