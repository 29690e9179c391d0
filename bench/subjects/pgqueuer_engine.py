"""PgQueuer: a client that enqueues in batches, and one worker. In PgQueuer's venv."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg  # type: ignore[import-not-found]
import psycopg
from pgqueuer import PgQueuer  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver, SyncPsycopgDriver  # type: ignore[import-not-found]
from pgqueuer.models import Job  # type: ignore[import-not-found]
from pgqueuer.queries import Queries, SyncQueries  # type: ignore[import-not-found]

from bench.subjects.engine_rounds import rounds_of, stamper
from bench.subjects.serve import Work, serve

_MODULE = "bench.subjects.pgqueuer_engine"
_BATCH = 500


class Client:
    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._queries = SyncQueries(SyncPsycopgDriver(connection))

    def enqueue_noops(self, n: int) -> None:
        for start in range(0, n, _BATCH):
            k = min(_BATCH, n - start)
            self._queries.enqueue(["noop"] * k, [None] * k, [0] * k)

    def enqueue_chain(self, length: int) -> None:
        self._queries.enqueue("link", str(length).encode())

    def is_idle(self) -> bool:
        return self._number("SELECT count(*) FROM pgqueuer") == 0

    def succeeded(self) -> int:
        return self._number("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")

    def _number(self, query: str) -> int:
        (number,) = self._connection.execute(query).fetchone() or (0,)
        return int(number)


@contextmanager
def prepared(dsn: str) -> Iterator[Work]:
    asyncio.run(install(dsn))
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield rounds_of(Client(connection), _MODULE, dsn)


async def install(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    await connection.close()


async def run_worker(dsn: str) -> None:
    stamp = stamper()
    app = PgQueuer(AsyncpgDriver(await asyncpg.connect(dsn)))

    @app.entrypoint("noop")  # type: ignore[untyped-decorator]
    async def noop(_: Job) -> None:
        pass

    @app.entrypoint("link")  # type: ignore[untyped-decorator]
    async def link(job: Job) -> None:
        left = int(job.payload)
        if left == 1:
            stamp()
        else:
            await app.qm.queries.enqueue("link", str(left - 1).encode())

    await app.run(batch_size=_BATCH)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        asyncio.run(run_worker(sys.argv[3]))
    else:
        serve(prepared(sys.argv[1]))
