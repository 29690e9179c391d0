"""PgQueuer: a client that enqueues in batches, and its worker. In PgQueuer's venv."""

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

# Short jobs want large batches, says its documentation. Where there is one job at a time the
# default is faster: ends are written when a batch of them is full, or after 0.1 s.
_BATCH_SIZE = {"lifecycles": 100, "latencies": 10, "chain": 10}
_BATCH = 1_000


class Client:
    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._queries = SyncQueries(SyncPsycopgDriver(connection))

    def enqueue_noops(self, n: int) -> None:
        for start in range(0, n, _BATCH):
            size = min(_BATCH, n - start)
            self._queries.enqueue(["noop"] * size, [None] * size, [0] * size)

    def enqueue_chain(self, length: int) -> None:
        self._queries.enqueue("link", str(length).encode())

    def is_idle(self) -> bool:
        return not self._number("SELECT EXISTS (SELECT FROM pgqueuer)::int")

    def succeeded(self) -> int:
        return self._number("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")

    def _number(self, query: str) -> int:
        (number,) = self._connection.execute(query).fetchone() or (0,)
        return int(number)


@contextmanager
def prepared(dsn: str) -> Iterator[Work]:
    asyncio.run(_install(dsn))
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield rounds_of(Client(connection), "bench.subjects.pgqueuer_engine", dsn)


async def _install(dsn: str) -> None:
    """As `pgq install` and `pgq autovac` do; every table is logged, the default."""
    connection = await asyncpg.connect(dsn)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    await connection.close()


async def run_worker(kind: str, dsn: str) -> None:
    stamp = stamper()
    # The fastest of its drivers, on one connection as its documentation wants it for a worker.
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

    await app.run(batch_size=_BATCH_SIZE[kind])


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        asyncio.run(run_worker(*sys.argv[2:]))
    else:
        serve(prepared(*sys.argv[1:]))
