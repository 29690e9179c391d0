"""DBOS: a client that enqueues workflows, and one worker. In DBOS's venv."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSClient  # type: ignore[import-not-found]

from bench.subjects.engine_rounds import rounds_of, stamper
from bench.subjects.serve import Work, serve

_MODULE = "bench.subjects.dbos_engine"
_QUEUE = "bench"
_BATCH = int(os.environ.get("X_BATCH", "100"))
_POLL_S = float(os.environ.get("X_POLL", "0.005"))
_WC = int(os.environ.get("X_WC", "0")) or None
_ASYNC = os.environ.get("X_ASYNC")


class Client:
    def __init__(self, dsn: str, connection: psycopg.Connection) -> None:
        self._client = DBOSClient(system_database_url=dsn)
        self._engine = sqlalchemy.create_engine(dsn.replace("postgresql:", "postgresql+psycopg:"))
        self._connection = connection

    def enqueue_noops(self, n: int) -> None:
        for start in range(0, n, _BATCH):
            with self._engine.begin() as transaction:
                for _ in range(start, min(start + _BATCH, n)):
                    self._client.enqueue_in_transaction(transaction, _options("noop"))

    def enqueue_chain(self, length: int) -> None:
        self._client.enqueue(_options("link"), length)

    def is_idle(self) -> bool:
        return self._count("status NOT IN ('SUCCESS', 'ERROR')") == 0

    def succeeded(self) -> int:
        return self._count("status = 'SUCCESS'")

    def _count(self, which: str) -> int:
        rows = self._connection.execute(f"SELECT count(*) FROM dbos.workflow_status WHERE {which}")
        (count,) = rows.fetchone() or (0,)
        return int(count)


def _options(workflow: str) -> dict[str, str]:
    return {"workflow_name": workflow, "queue_name": _QUEUE}


@contextmanager
def prepared(dsn: str) -> Iterator[Work]:
    DBOS(config={"name": "bench", "system_database_url": dsn})
    DBOS.launch()
    DBOS.destroy()
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield rounds_of(Client(dsn, connection), _MODULE, dsn)


def run_worker(dsn: str) -> None:
    stamp = stamper()
    DBOS(
        config={
            "name": "bench",
            "system_database_url": dsn,
            "sys_db_pool_size": int(os.environ.get("X_POOL", "20")),
            "log_level": "WARNING",
        }
    )

    if _ASYNC:

        @DBOS.workflow(name="noop")
        async def noop() -> None:
            pass

        @DBOS.workflow(name="link")
        async def link(left: int) -> None:
            if left == 1:
                stamp()
            else:
                await DBOS.enqueue_workflow_async(_QUEUE, link, left - 1)
    else:

        @DBOS.workflow(name="noop")  # type: ignore[untyped-decorator]
        def noop() -> None:
            pass

        @DBOS.workflow(name="link")  # type: ignore[untyped-decorator]
        def link(left: int) -> None:
            if left == 1:
                stamp()
            else:
                DBOS.enqueue_workflow(_QUEUE, link, left - 1)

    DBOS.launch()
    DBOS.register_queue(_QUEUE, polling_interval_sec=_POLL_S, worker_concurrency=_WC)
    threading.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        run_worker(sys.argv[3])
    else:
        serve(prepared(sys.argv[1]))
