"""A queue that keeps no promise but one: what it delivers, somebody sent."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from trace_platform.drivers.queue import QueueSender


class ChaosSender:
    """Each message may be lost; sent twice; overtaken by all that is sent with the next batch."""

    def __init__(
        self,
        queue: QueueSender,
        chance: random.Random,
        *,
        duplicated: float = 0.3,
        reordered: float = 0.3,
        dropped: float = 0.1,
    ) -> None:
        self.sent = self.duplicated = self.reordered = self.dropped = 0
        self._queue = queue
        self._chance = chance
        self._odds = {"duplicated": duplicated, "reordered": reordered, "dropped": dropped}
        self._late: dict[str, list[dict[str, Any]]] = defaultdict(list)

    async def send(self, queue: str, bodies: Sequence[dict[str, Any]]) -> None:
        overtaken = self._late.pop(queue, [])
        on_time = []
        for body in bodies:
            self.sent += 1
            if self._happens("dropped"):
                continue
            for _ in range(2 if self._happens("duplicated") else 1):
                late = self._happens("reordered")
                (self._late[queue] if late else on_time).append(body)
        self._chance.shuffle(on_time)
        await self._deliver(queue, [*on_time, *overtaken])

    async def deliver_late(self) -> None:
        """What nothing overtakes any more arrives after all."""
        for queue in list(self._late):
            await self._deliver(queue, self._late.pop(queue))

    async def _deliver(self, queue: str, bodies: list[dict[str, Any]]) -> None:
        if bodies:
            await self._queue.send(queue, bodies)

    def _happens(self, what: str) -> bool:
        happens = self._chance.random() < self._odds[what]
        setattr(self, what, getattr(self, what) + happens)
        return happens
