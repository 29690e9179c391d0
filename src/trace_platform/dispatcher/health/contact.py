"""Whether this dispatcher has been there long enough for workers to be heard.

After an outage that outlasted their leases all workers look dead. They are not: their next beats
and reports are on their way, and to give their tasks to others meanwhile would waste what they did.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import TypeVar

from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.postgres.database import Database

T = TypeVar("T")


class Contact:
    """Counts from the start, and anew from every moment at which Postgres did not answer."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._since = time.monotonic()

    async def is_steady(self, state: Database) -> bool:
        if time.monotonic() - self._since >= self._grace_s:
            return True
        await self.keeping(_ask(state))
        return False

    async def keeping(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except Unavailable:
            self._since = time.monotonic()
            raise


async def _ask(state: Database) -> None:
    async with state.statement() as tx:
        await tx.execute("SELECT 1")
