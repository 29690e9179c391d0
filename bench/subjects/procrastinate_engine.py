"""procrastinate: a client that defers in batches, and its worker. In procrastinate's venv."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import procrastinate  # type: ignore[import-not-found]
import psycopg

from bench.subjects.engine_rounds import rounds_of, stamper
from bench.subjects.serve import Work, serve

# Four jobs at a time were the fastest here. A chain has one at a time, the default: a concurrent
# worker now and then misses the wake-up for a job that a job defers, and finds it 5 s later.
_CONCURRENCY = {"lifecycles": 4, "latencies": 1, "chain": 1}
_BATCH = 500


class Client:
    def __init__(self, app: procrastinate.App, connection: psycopg.Connection) -> None:
        self._noop, self._link = app.tasks["noop"], app.tasks["link"]
        self._connection = connection

    def enqueue_noops(self, n: int) -> None:
        for start in range(0, n, _BATCH):
            self._noop.batch_defer(*[{}] * min(_BATCH, n - start))

    def enqueue_chain(self, length: int) -> None:
        self._link.defer(left=length)

    def is_idle(self) -> bool:
        return self._count("status IN ('todo', 'doing')") == 0

    def succeeded(self) -> int:
        return self._count("status = 'succeeded'")

    def _count(self, condition: str) -> int:
        query = f"SELECT count(*) FROM procrastinate_jobs WHERE {condition}"
        (number,) = self._connection.execute(query).fetchone() or (0,)
        return int(number)


@contextmanager
def prepared(dsn: str) -> Iterator[Work]:
    app = _app(procrastinate.SyncPsycopgConnector(conninfo=dsn))
    with app.open(), psycopg.connect(dsn, autocommit=True) as connection:
        app.schema_manager.apply_schema()
        yield rounds_of(Client(app, connection), "bench.subjects.procrastinate_engine", dsn)


async def run_worker(kind: str, dsn: str) -> None:
    concurrency = _CONCURRENCY[kind]
    connector = procrastinate.PsycopgConnector(
        conninfo=dsn,
        # Short jobs want a connection each and one more, says its documentation.
        min_size=concurrency + 1,
        max_size=concurrency + 1,
        configure=_autocommit,
    )
    app = _app(connector, stamper())
    async with app.open_async():
        await app.run_worker_async(concurrency=concurrency)


async def _autocommit(connection: psycopg.AsyncConnection) -> None:
    """Each of its statements is a transaction anyway: no BEGIN and COMMIT, a third more jobs."""
    await connection.set_autocommit(True)


def _app(
    connector: procrastinate.BaseConnector, stamp: Callable[[], None] = lambda: None
) -> procrastinate.App:
    app = procrastinate.App(connector=connector)

    @app.task(name="noop")  # type: ignore[untyped-decorator]
    async def noop() -> None:
        pass

    @app.task(name="link")  # type: ignore[untyped-decorator]
    async def link(left: int) -> None:
        if left == 1:
            stamp()
        else:
            await link.defer_async(left=left - 1)

    return app


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        asyncio.run(run_worker(*sys.argv[2:]))
    else:
        serve(prepared(*sys.argv[1:]))
