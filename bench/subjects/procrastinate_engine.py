"""procrastinate: a client that defers in batches, and one worker. In procrastinate's venv."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import procrastinate  # type: ignore[import-not-found]
import psycopg

from bench.subjects.engine_rounds import rounds_of, stamper
from bench.subjects.serve import Work, serve

_MODULE = "bench.subjects.procrastinate_engine"
# The concurrency of the documentation's example; for short jobs it wants as many connections.
import os

_CONCURRENCY = int(os.environ.get("X_C", "30"))
_BATCH = int(os.environ.get("X_BATCH", "500"))


def app_of(
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


class Client:
    def __init__(self, app: procrastinate.App, connection: psycopg.Connection) -> None:
        self._noop, self._link = app.tasks["noop"], app.tasks["link"]
        self._connection = connection

    def enqueue_noops(self, n: int) -> None:
        for start in range(0, n, _BATCH):
            self._noop.batch_defer(*({} for _ in range(start, min(start + _BATCH, n))))

    def enqueue_chain(self, length: int) -> None:
        self._link.defer(left=length)

    def is_idle(self) -> bool:
        return self._count("status IN ('todo', 'doing')") == 0

    def succeeded(self) -> int:
        return self._count("status = 'succeeded'")

    def _count(self, which: str) -> int:
        rows = self._connection.execute(f"SELECT count(*) FROM procrastinate_jobs WHERE {which}")
        (count,) = rows.fetchone() or (0,)
        return int(count)


@contextmanager
def prepared(dsn: str) -> Iterator[Work]:
    app = app_of(procrastinate.SyncPsycopgConnector(conninfo=dsn))
    with app.open(), psycopg.connect(dsn, autocommit=True) as connection:
        app.schema_manager.apply_schema()
        yield rounds_of(Client(app, connection), _MODULE, dsn)


async def run_worker(dsn: str) -> None:
    pool = {"min_size": _CONCURRENCY + 1, "max_size": _CONCURRENCY + 1}
    if os.environ.get("X_AUTO"):

        async def cf(c):
            await c.set_autocommit(True)

        pool["configure"] = cf
    app = app_of(procrastinate.PsycopgConnector(conninfo=dsn, **pool), stamper())
    import psycopg_pool

    async def cfg(c):
        await c.set_autocommit(os.environ["X_EXT"] == "2")

    kw = {}
    if os.environ.get("X_DEL"):
        kw["delete_jobs"] = os.environ["X_DEL"]
    if os.environ.get("X_FP"):
        kw["fetch_job_polling_interval"] = float(os.environ["X_FP"])
    if os.environ.get("X_EXT"):
        p = psycopg_pool.AsyncConnectionPool(dsn, **pool, open=False, configure=cfg)
        await p.open(wait=True)
        async with app.open_async(p):
            await app.run_worker_async(concurrency=_CONCURRENCY, **kw)
    async with app.open_async():
        await app.run_worker_async(concurrency=_CONCURRENCY, **kw)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        if os.environ.get("X_UV"):
            import uvloop

            uvloop.install()
        asyncio.run(run_worker(sys.argv[3]))
    else:
        serve(prepared(sys.argv[1]))
