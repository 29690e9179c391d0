"""What wakes an operator, and what it emits: the part of its contract that is checked when a DAG is
linted or deployed, before any task has the wrong shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# range: a partition START-END of blocks. partition: one with another key. tick: a cursor.
Update = Literal["range", "partition", "tick"]
Updates = frozenset[Update]

RANGE: Updates = frozenset({"range"})
PARTITION: Updates = frozenset({"range", "partition"})
TICK: Updates = frozenset({"tick"})
ANY: Updates = PARTITION | TICK

# One of them, and several. A block range is a partition too.
_WORDS: dict[Update, tuple[str, str]] = {
    "range": ("block range", "block ranges"),
    "partition": ("partition", "partitions"),
    "tick": ("tick", "ticks"),
}


def one(updates: Updates) -> str:
    """In words, such as `one block range`."""
    return "one update" if updates == ANY else f"one {' or '.join(_words(updates, 0))}"


def several(updates: Updates) -> str:
    """In words, such as `block ranges`."""
    if updates == PARTITION - RANGE:
        return "partitions that are no block ranges"
    return "any updates" if updates == ANY else " or ".join(_words(updates, 1))


def _words(updates: Updates, number: int) -> list[str]:
    told = updates - RANGE if "partition" in updates else updates
    return [words[number] for kind, words in _WORDS.items() if kind in told]


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a task of the operator may be woken by."""

    # Kinds of updates; none of them wakes an operator that is only a source.
    updates: Updates
    # Whether one task may have more than one. Such an operator reads all of them: what it commits
    # stands for no range that it has not read.
    several: bool = False
    # Whether it can run as an always_on source: without inputs, and without end.
    source: bool = False
    # Whether a job of it may be woken by ticks and by partitions: what answers a tick stands for
    # everything, and would lie beside partitions that hold a part of it.
    mixed: bool = True

    def __str__(self) -> str:
        return several(self.updates) if self.several else one(self.updates)


ONE_RANGE = Accepts(RANGE)
RANGES = Accepts(RANGE, several=True)
# Whatever arrives: it reads whole datasets, or passes events on.
ANYTHING = Accepts(ANY, several=True)
# The same, but ticks and partitions each in a job of their own.
ANYTHING_UNMIXED = Accepts(ANY, several=True, mixed=False)
ONLY_A_SOURCE = Accepts(frozenset(), source=True)
ANYTHING_OR_A_SOURCE = Accepts(ANY, several=True, source=True)
# Of an operator that does not say: nothing is refused.
UNDECLARED = ANYTHING_OR_A_SOURCE
