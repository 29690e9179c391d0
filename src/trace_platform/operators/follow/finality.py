"""Whether a fork goes deeper than what was final."""

from __future__ import annotations

import time
from collections.abc import Callable

# Two epochs, as on Ethereum: for nodes that do not say what is final.
_USUAL_DEPTH = 64
_LOOK_EVERY_S = 5.0


class Finality:
    """By a depth that is configured, else by the node's `finalized` block.

    What counts is what was final while its chain was followed: after an absence the node's
    `finalized` is of a chain that nobody compared with ours yet.
    """

    def __init__(
        self,
        depth: int | None,
        finalized: Callable[[], int | None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._depth = depth
        self._finalized = finalized
        self._now = now
        self._due_at = 0.0
        self._seen: int | None = None

    def look(self) -> None:
        """While the node's chain is ours."""
        if self._depth is None and self._now() >= self._due_at:
            self._due_at = self._now() + _LOOK_EVERY_S
            self._see(self._finalized())

    def is_deeper(self, fork_start: int, last_block: int) -> bool:
        """Whether a fork that begins at this block replaces one that was final."""
        if self._depth is None and self._seen is not None:
            now = self._finalized()
            # Beyond all that is written: nobody followed while it became final.
            self._see(now if now is None or now < last_block else None)
            return fork_start <= self._seen
        return last_block - fork_start + 1 > (self._depth or _USUAL_DEPTH)

    def _see(self, found: int | None) -> None:
        if found is not None:
            self._seen = max(found, self._seen or 0)
