"""The dead letters of the queue on Postgres."""

from __future__ import annotations

from collections.abc import Sequence

from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import load_queries
from trace_platform.drivers.queue import DeadMessage

_sql = load_queries(__file__)


class PgDeadLetters:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def listing(
        self, limit: int, queue: str | None = None, ids: Sequence[int] | None = None
    ) -> list[DeadMessage]:
        wanted = None if ids is None else list(ids)
        async with self._database.statement() as tx:
            rows = await _sql.listing(tx, queue=queue, ids=wanted, limit=limit)
        return [
            DeadMessage(
                id=row["id"],
                queue=row["queue"],
                body=row["body"],
                receives=row["receive_count"],
                sent_at=row["sent_at"],
                died_at=row["died_at"],
            )
            for row in rows
        ]

    async def count(self, queue: str | None = None) -> int:
        async with self._database.statement() as tx:
            counted: int = await _sql.count(tx, queue=queue)
        return counted

    async def resend(self, ids: Sequence[int]) -> set[int]:
        async with self._database.statement() as tx:
            return {row["id"] for row in await _sql.resend(tx, ids=list(ids))}

    async def drop(self, ids: Sequence[int]) -> set[int]:
        async with self._database.statement() as tx:
            return {row["id"] for row in await _sql.drop(tx, ids=list(ids))}

    async def forget(self, keep_days: float, limit: int) -> int:
        async with self._database.statement() as tx:
            gone: int = await _sql.forget(tx, keep_days=keep_days, limit=limit)
        return gone
