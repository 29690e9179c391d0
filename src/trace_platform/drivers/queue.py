"""Wake-ups for workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Message:
    receipt: str
    body: dict[str, Any]


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
