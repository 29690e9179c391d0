"""Queries that are under way, so that they can be seen and stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from trace_platform.domain.errors import Conflict, NotFound, QueryCanceled, Unavailable
from trace_platform.wire.query import RunningQueries, RunningQuery

# A service that stops is mostly started again.
_BACK_S = 2


@dataclass(slots=True)
class _Running:
    caller: str
    sql_sha256: str
    started_at: datetime
    task: asyncio.Task[object]
    canceled: bool = False

    def cancel(self) -> None:
        if not self.canceled:
            self.canceled = True
            self.task.cancel()


class Running:
    """A caller sees and stops its own."""

    def __init__(self) -> None:
        self._queries: dict[UUID, _Running] = {}
        self._is_stopping = False

    @contextlib.contextmanager
    def query(self, query_id: UUID, caller: str, sql_sha256: str) -> Iterator[None]:
        """Around the query, in its own task. Raise QueryCanceled when somebody stopped it,
        Unavailable when the service stops."""
        if self._is_stopping:
            raise _stopping()
        if query_id in self._queries:
            raise Conflict(f"query {query_id} is running", hint="give each query an id of its own")
        task = asyncio.current_task()
        assert task is not None
        entry = _Running(caller, sql_sha256, datetime.now(UTC), task)
        self._queries[query_id] = entry
        try:
            yield
        except (asyncio.CancelledError, Unavailable):
            if not entry.canceled:
                raise
            task.uncancel()
            if self._is_stopping:
                raise _stopping() from None
            raise QueryCanceled(f"query {query_id} was stopped") from None
        finally:
            del self._queries[query_id]

    def cancel(self, query_id: UUID, caller: str) -> None:
        """Raise NotFound when the caller has no such query; one that has ended counts as none."""
        entry = self._queries.get(query_id)
        if entry is None or entry.caller != caller:
            raise NotFound(f"you have no query {query_id} that runs")
        entry.cancel()

    def stop(self) -> None:
        """All of them, and none from now on: the service ends."""
        self._is_stopping = True
        for entry in self._queries.values():
            entry.cancel()

    def of(self, caller: str) -> RunningQueries:
        return RunningQueries(
            queries=[
                RunningQuery(
                    query_id=query_id, started_at=each.started_at, sql_sha256=each.sql_sha256
                )
                for query_id, each in self._queries.items()
                if each.caller == caller
            ]
        )


def _stopping() -> Unavailable:
    return Unavailable(
        "the query service is stopping", hint="run the query again", retry_after_s=_BACK_S
    )
