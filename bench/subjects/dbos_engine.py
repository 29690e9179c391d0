"""DBOS: a client that enqueues workflows, and its worker. In DBOS's venv."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy  # type: ignore[import-not-found]
from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions  # type: ignore[import-not-found]

from bench.subjects.engine_rounds import rounds_of, stamper
from bench.subjects.serve import Work, serve

_QUEUE = "bench"
# A queue is polled, every second by default. These were the fastest here; for one job at a time
# still shorter waits only cost it processor time.
_POLL_S = {"lifecycles": 0.020, "latencies": 0.002, "chain": 0.002}
_BATCH = 50


class Client:
    def __init__(self, dsn: str, connection: psycopg.Connection) -> None:
        self._client = DBOSClient(system_database_url=dsn)
        self._engine = sqlalchemy.create_engine(dsn.replace("postgresql:", "postgresql+psycopg:"))
        self._connection = connection

    def enqueue_noops(self, n: int) -> None:
        """It takes no batches, but many workflows in one transaction. Small ones: its client is
        about as slow as its worker, which should not wait for it."""
        for start in range(0, n, _BATCH):
            with self._engine.begin() as transaction:
                for _ in range(min(_BATCH, n - start)):
                    self._client.enqueue_in_transaction(transaction, _options("noop"))

    def enqueue_chain(self, length: int) -> None:
        self._client.enqueue(_options("link"), length)

    def is_idle(self) -> bool:
        return self._count("status IN ('ENQUEUED', 'PENDING')") == 0

    def succeeded(self) -> int:
        return self._count("status = 'SUCCESS'")

    def _count(self, condition: str) -> int:
        query = f"SELECT count(*) FROM dbos.workflow_status WHERE {condition}"
        (number,) = self._connection.execute(query).fetchone() or (0,)
        return int(number)


@contextmanager
def prepared(dsn: str) -> Iterator[Work]:
    # Its tables are made on launch.
    DBOS(config=_config(dsn))
    DBOS.launch()
    DBOS.destroy()
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield rounds_of(Client(dsn, connection), "bench.subjects.dbos_engine", dsn)


def run_worker(kind: str, dsn: str) -> None:
    stamp = stamper()
    DBOS(config=_config(dsn))

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
    DBOS.register_queue(_QUEUE, polling_interval_sec=_POLL_S[kind], on_conflict="always_update")
    threading.Event().wait()


def _config(dsn: str) -> DBOSConfig:
    return {
        "name": "bench",
        "system_database_url": dsn,
        "sys_db_pool_size": 5,  # of 20 by default: on two cores more of them get in the way
        "log_level": "WARNING",
    }


def _options(workflow: str) -> EnqueueOptions:
    return {"workflow_name": workflow, "queue_name": _QUEUE}


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        run_worker(*sys.argv[2:])
    else:
        serve(prepared(*sys.argv[1:]))
