"""Pages of JSON that were not asked for yet, for some minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from trace_platform.domain.errors import NotFound
from trace_platform.query.service.spool import Spool


@dataclass(frozen=True, slots=True)
class _Kept:
    spool: Spool
    until: float


class Pages:
    """Each is its keeper's alone, who has at most `most`: the oldest gives way."""

    def __init__(
        self, keep_s: float = 600.0, most: int = 8, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._keep_s, self._most, self._clock = keep_s, most, clock
        self._kept: dict[tuple[str, UUID], _Kept] = {}

    def keep(self, keeper: str, answer_id: UUID, spool: Spool) -> None:
        """Take the spool of an answer over, for a while."""
        self.forget()
        own = [key for key in self._kept if key[0] == keeper]
        for key in own[: max(0, len(own) - self._most + 1)]:
            self._kept.pop(key).spool.close()
        self._kept[keeper, answer_id] = _Kept(spool, self._clock() + self._keep_s)

    def find(self, keeper: str, answer_id: UUID, number: int) -> Spool:
        """The spool, which has such a page: its chunks are the pages, the first is 1."""
        self.forget()
        kept = self._kept.get((keeper, answer_id))
        if kept is None or not 1 <= number <= kept.spool.chunks:
            raise NotFound(
                f"there is no page {number} of answer {answer_id}",
                hint=f"pages are kept for {self._keep_s / 60:g} minutes: run the query again",
            )
        return kept.spool

    def forget(self) -> None:
        """Let go of what was kept long enough."""
        now = self._clock()
        for key in [key for key, kept in self._kept.items() if kept.until <= now]:
            self._kept.pop(key).spool.close()

    def close(self) -> None:
        for kept in self._kept.values():
            kept.spool.close()
        self._kept.clear()
