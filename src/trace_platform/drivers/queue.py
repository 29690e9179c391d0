"""Wake-ups for workers, and those that nobody could handle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


def source_queue(queue: str) -> str:
    """Where runs of sources are announced that belong to this queue: whoever has no room for tasks
    may have some for them. No queue of a runtime has a name with a colon."""
    return f"{queue}:sources"


@dataclass(frozen=True, slots=True)
class Message:
    receipt: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """Received again and again, and never acknowledged: nobody is given it any more."""

    id: int
    queue: str
    body: dict[str, Any]
    receives: int
    sent_at: datetime
    died_at: datetime


class QueueSender(Protocol):
    """At-least-once and unordered: a message is a hint, never an authority."""

    async def send(self, queue: str, bodies: Sequence[dict[str, Any]]) -> None: ...


class QueueReceiver(Protocol):
    """What a worker may do with a queue: a received message comes back unless it is acked."""

    def receive(
        self, queue: str, limit: int, visibility_s: float, wait_s: float = 0
    ) -> list[Message]:
        """What is visible now; when nothing is, what arrives within `wait_s`."""

    def ack(self, receipts: Sequence[str]) -> None: ...


class DeadLetters(Protocol):
    """What a queue gave up to deliver. What is done to some of them says which there were."""

    async def listing(
        self, limit: int, queue: str | None = None, ids: Sequence[int] | None = None
    ) -> list[DeadMessage]:
        """The newest first, of all queues unless one is named."""

    async def count(self, queue: str | None = None) -> int: ...

    async def resend(self, ids: Sequence[int]) -> set[int]:
        """Each is a message like any other again."""

    async def drop(self, ids: Sequence[int]) -> set[int]: ...

    async def forget(self, keep_days: float, limit: int) -> int:
        """How many went: those that died, and messages that were sent and never taken, longer
        ago than this."""
