"""Attempts that began or ended since they were last told. Kept in memory and after the commit: to
tell of an attempt never holds it up, and what nobody takes is dropped and counted."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Literal, NamedTuple
from uuid import UUID

from trace_platform.drivers.event_sink import EventSink

_MOST = 10_000


class Note(NamedTuple):
    task_id: UUID
    attempt: int
    what: Literal["began", "ended"]


class PendingRuns:
    def __init__(self, sink: EventSink, namespace: str, most: int = _MOST) -> None:
        self.sink, self.namespace = sink, namespace
        # Encoded, and not taken yet.
        self.encoded: list[bytes] = []
        self._notes: deque[Note] = deque()
        self._most = most
        self.dropped = 0
        self._dropped_at: float | None = None

    def began(self, attempts: Iterable[tuple[UUID, int]]) -> None:
        self._add(Note(task_id, attempt, "began") for task_id, attempt in attempts)

    def ended(self, attempts: Iterable[tuple[UUID, int]]) -> None:
        self._add(Note(task_id, attempt, "ended") for task_id, attempt in attempts)

    def first(self, count: int) -> list[Note]:
        return [self._notes[n] for n in range(min(count, len(self._notes)))]

    def told(self, count: int) -> None:
        for _ in range(min(count, len(self._notes))):
            self._notes.popleft()

    def drop(self, count: int) -> None:
        """The oldest are told to nobody."""
        self.told(count)
        self.dropped += count
        self._dropped_at = time.monotonic()

    @property
    def waiting(self) -> int:
        return len(self._notes) + len(self.encoded)

    def dropped_within(self, seconds: float) -> bool:
        return self._dropped_at is not None and time.monotonic() - self._dropped_at < seconds

    def _add(self, notes: Iterable[Note]) -> None:
        self._notes.extend(notes)
        if (excess := len(self._notes) - self._most) > 0:
            self.drop(excess)
