"""Whether a fork goes deeper than what was final."""

from __future__ import annotations

import time
from collections.abc import Callable

# Two epochs, as on Ethereum: for nodes that do not say what is final.
_USUAL_DEPTH = 64
_LOOK_EVERY_S = 5.0


class Finality:
    """By a depth that is configured, else by the node's `finalized` block.

    What counts is what was final of the chain that was written: after an absence the node's
    `finalized` is of blocks that came later, and tells only how far behind its head it stays.
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
        self._seen = -1

    def look(self, last_block: int) -> None:
        """While the node's chain is the written one, which ends here."""
        if self._depth is None and self._now() >= self._due_at:
            self._due_at = self._now() + _LOOK_EVERY_S
            found = self._finalized()
            if found is not None:
                self._seen = max(self._seen, min(found, last_block))

    def is_deeper(self, fork_start: int, last_block: int, head: int) -> bool:
        """Whether a fork that begins at this block of a chain that was written up to `last_block`
        replaces one that was final. `head` is the node's."""
        return fork_start <= max(self._seen, last_block - self._distance(head))

    def _distance(self, head: int) -> int:
        if self._depth is not None:
            return self._depth
        found = self._finalized()
        return _USUAL_DEPTH if found is None else max(head - found, 0)
