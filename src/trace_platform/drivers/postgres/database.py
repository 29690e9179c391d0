"""An async connection pool whose only verb is a transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from trace_platform.domain.errors import BadInput, Unavailable
from trace_platform.drivers.postgres.queries import Row, Tx


class Database:
    """Transactions on one database. A lost connection is Unavailable, and is replaced."""

    def __init__(self, dsn: str, *, max_connections: int = 16, wait_s: float = 10) -> None:
        self._pool: AsyncConnectionPool[psycopg.AsyncConnection[Row]] = AsyncConnectionPool(
            dsn,
            min_size=1,
            max_size=max_connections,
            timeout=wait_s,
            kwargs={"row_factory": dict_row, "connect_timeout": 5},
            check=AsyncConnectionPool.check_connection,
            open=False,
        )

    async def open(self) -> None:
        await self._pool.open(wait=False)

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """Commits at the end of the block, rolls back when it raises."""
        try:
            async with self._pool.connection() as connection, connection.transaction():
                yield connection
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
