"""Queue on Postgres: one table behind three functions, SKIP LOCKED and a visibility time-out.

A sender notifies once per batch. A NOTIFY makes commits take turns, so it has no place in a
transaction that does anything else than sending.
A notification that gets lost costs a waiting receiver the rest of its wait, nothing more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import Message

_CHANNEL = "trace_queue"
_Connection = psycopg.Connection[tuple[Any, ...]]


class PgQueueSender:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def send(self, queue: str, bodies: Sequence[dict[str, Any]]) -> None:
        async with self._database.statement() as tx:
            await tx.execute(
                "SELECT queue.send(%s, %s), pg_notify(%s, %s)",
                (queue, Jsonb(list(bodies)), _CHANNEL, queue),
            )


class PgQueueReceiver:
    """One connection, opened when it is needed and again after it was lost. Thread-safe."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = Lock()
        self._connection: _Connection | None = None

    def receive(
        self, queue: str, limit: int, visibility_s: float, wait_s: float = 0
    ) -> list[Message]:
        with self._connected() as connection:
            found = _receive(connection, queue, limit, visibility_s)
            if not found and wait_s > 0 and _notified(connection, queue, wait_s):
                found = _receive(connection, queue, limit, visibility_s)
            return found

    def ack(self, receipts: Sequence[str]) -> None:
        with self._connected() as connection:
            connection.execute("SELECT queue.ack(%s)", (list(receipts),))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _connected(self) -> Iterator[_Connection]:
        with self._lock:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = psycopg.connect(
                        self._dsn, autocommit=True, connect_timeout=5
                    )
                    # A message is a hint: what a crash of Postgres forgets is delivered again.
                    self._connection.execute("SET synchronous_commit = off")
                    # Before the first look: what is sent after the look is heard of.
                    self._connection.execute(f"LISTEN {_CHANNEL}")
                yield self._connection
            except psycopg.OperationalError as error:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                raise Unavailable("the queue does not answer") from error


def _receive(connection: _Connection, queue: str, limit: int, visibility_s: float) -> list[Message]:
    sql = "SELECT receipt, body FROM queue.receive(%s, %s, %s)"
    rows = connection.execute(sql, (queue, limit, visibility_s)).fetchall()
    return [Message(receipt, body) for receipt, body in rows]


def _notified(connection: _Connection, queue: str, wait_s: float) -> bool:
    """Whether somebody sent to the queue within that time."""
    deadline = time.monotonic() + wait_s
    while (left_s := deadline - time.monotonic()) > 0:
        for notification in connection.notifies(timeout=left_s, stop_after=1):
            if notification.payload == queue:
                return True
    return False
