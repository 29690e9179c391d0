"""The chain outside, and what datasets should hold of it.

A block's content is the number of the fork that it is on. A reorg puts some blocks on a new fork.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

BLOCKS = 40

# What a job made of a block: [job, revision, what it read]; of a block outside: [fork].
Value = list[Any]
Content = dict[int, Value]


@dataclass
class World:
    forks: list[int] = field(default_factory=lambda: [1] * BLOCKS)

    def reorganise(self, start: int, end: int) -> int:
        """The number of the new fork."""
        fork = max(self.forks) + 1
        for block in range(start, end + 1):
            self.forks[block] = fork
        return fork

    def read(self, blocks: Iterable[int]) -> Content:
        return {block: [self.forks[block]] for block in blocks}

    def differs(self, other: list[int], blocks: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Of these blocks the ranges that are on another fork than they were."""
        return ranges(b for b in blocks if self.forks[b] != other[b])


def ranges(blocks: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring blocks together, as inclusive ranges."""
    start = last = None
    for block in sorted(blocks):
        if last is not None and block == last + 1:
            last = block
            continue
        if start is not None and last is not None:
            yield start, last
        start = last = block
    if start is not None and last is not None:
        yield start, last


def shown(blocks: Iterable[int]) -> str:
    return ", ".join(f"{a}-{b}" if a < b else f"{a}" for a, b in ranges(blocks)) or "nothing"
