"""Queue on Postgres: one table behind three functions, SKIP LOCKED and a visibility time-out."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import Message


class PgQueueSender:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def send(self, queue: str, bodies: Sequence[dict[str, Any]]) -> None:
        async with self._database.transaction() as tx:
            await tx.execute("SELECT queue.send(%s, %s)", (queue, Jsonb(list(bodies))))


class PgQueueReceiver:
    """One connection, opened when it is needed and again after it was lost. Thread-safe."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = Lock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def receive(self, queue: str, limit: int, visibility_s: float) -> list[Message]:
        rows = self._call("SELECT * FROM queue.receive(%s, %s, %s)", (queue, limit, visibility_s))
        return [Message(receipt, body, count) for receipt, body, count in rows]

    def ack(self, receipts: Sequence[str]) -> None:
        self._call("SELECT queue.ack(%s)", (list(receipts),))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _call(self, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = psycopg.connect(
                        self._dsn, autocommit=True, connect_timeout=5
                    )
                return self._connection.execute(sql.encode(), parameters).fetchall()
            except psycopg.OperationalError as error:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                raise Unavailable("the queue does not answer") from error
