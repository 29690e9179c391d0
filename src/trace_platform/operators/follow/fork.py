"""Where the node's chain and the written one part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trace_platform.operators.follow.window import Window

# Hashes that the node is asked for at once. The widest window takes four rounds.
_PROBES = 16

# Of these blocks, in this order; None for a block that the node does not have.
Hashes = Callable[[Sequence[int]], Sequence[bytes | None]]


class ChainMoved(Exception):
    """The node's answers are not of one chain: it changed in between. Look again."""


@dataclass(frozen=True, slots=True)
class Fork:
    # The newest block that both chains have. None: older than all hashes that are known.
    parent: int | None
    # The first block that differs.
    start: int
    old_hash: bytes
    new_hash: bytes


def find_fork(window: Window, top: int, ask: Hashes) -> Fork | None:
    """None when the node has the same blocks up to `top`, its head or our last block.

    A block's hash stands for all blocks before it: where one is the same, all older ones are, so
    that a few questions narrow any depth down. Raises ChainMoved.
    """
    search = _Search(window, ask)
    search.probe(_doubling(top, window.oldest or 0))
    while search.is_open:
        search.probe(search.between())
    return search.found


class _Search:
    def __init__(self, window: Window, ask: Hashes) -> None:
        self._window = window
        self._ask = ask
        self._same: int | None = None  # the newest that is known to be the same
        self._other: int | None = None  # the oldest that is known to differ
        self._new_hash = b""

    @property
    def is_open(self) -> bool:
        return None not in (self._same, self._other) and self._gap > 0

    @property
    def found(self) -> Fork | None:
        if self._other is None:
            return None
        known = self._window.get(self._other)
        assert known is not None
        return Fork(self._same, self._other, known, self._new_hash)

    @property
    def _gap(self) -> int:
        """Blocks of which nothing is known yet."""
        assert self._same is not None
        assert self._other is not None
        return self._other - self._same - 1

    def between(self) -> list[int]:
        """Evenly spread over what is open."""
        assert self._same is not None
        n = min(_PROBES, self._gap)
        return [self._same + (i + 1) * (self._gap + 1) // (n + 1) for i in range(n)]

    def probe(self, numbers: Sequence[int]) -> None:
        for number, found in zip(numbers, self._ask(numbers), strict=True):
            if found is None:
                raise ChainMoved(f"block {number} is gone")
            if found == self._window.get(number):
                self._same = max(number, self._same if self._same is not None else number)
            elif self._other is None or number < self._other:
                self._other, self._new_hash = number, found
        if None not in (self._same, self._other) and self._gap < 0:
            raise ChainMoved(f"block {self._same} is the same, the older {self._other} is not")


def _doubling(top: int, oldest: int) -> list[int]:
    """From the top down to the oldest, with steps of 1, 2, 4, ..."""
    return [*_steps(top, oldest), oldest]


def _steps(top: int, oldest: int) -> Iterator[int]:
    number, step = top, 1
    while number > oldest:
        yield number
        number, step = number - step, 2 * step
