"""Pages of JSON that were not asked for yet, for some minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import msgspec

from trace_platform.domain.errors import NotFound
from trace_platform.query.spool import Spool


@dataclass(frozen=True, slots=True)
class _Kept:
    caller: str
    spool: Spool
    until: float


class Pages:
    """At most `most` results, the oldest gives way. Each is its caller's alone."""

    def __init__(
        self, keep_s: float = 600.0, most: int = 64, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._keep_s, self._most, self._clock = keep_s, most, clock
        self._kept: dict[UUID, _Kept] = {}

    def first(self, caller: str, query_id: UUID, spool: Spool) -> tuple[msgspec.Raw, str | None]:
        """The rows of the first page, and where the next one is. Takes the spool over."""
        self._forget()
        rows = msgspec.Raw(spool.chunk(0) if spool.chunks else b"[]")
        if spool.chunks < 2:
            spool.close()
            return rows, None
        self._kept[query_id] = _Kept(caller, spool, self._clock() + self._keep_s)
        return rows, _link(query_id, 2)

    def page(self, caller: str, query_id: UUID, number: int) -> tuple[msgspec.Raw, str | None]:
        self._forget()
        kept = self._kept.get(query_id)
        if kept is None or kept.caller != caller or not 1 <= number <= kept.spool.chunks:
            raise NotFound(
                f"there is no page {number} of query {query_id}",
                hint=f"pages are kept for {self._keep_s / 60:g} minutes: run the query again",
            )
        rows = msgspec.Raw(kept.spool.chunk(number - 1))
        return rows, _link(query_id, number + 1) if number < kept.spool.chunks else None

    def close(self) -> None:
        for kept in self._kept.values():
            kept.spool.close()
        self._kept.clear()

    def _forget(self) -> None:
        now = self._clock()
        late = [key for key, kept in self._kept.items() if kept.until <= now]
        for key in late or list(self._kept)[: max(0, len(self._kept) - self._most + 1)]:
            self._kept.pop(key).spool.close()


def _link(query_id: UUID, number: int) -> str:
    return f"/v1/query/{query_id}/pages/{number}"
