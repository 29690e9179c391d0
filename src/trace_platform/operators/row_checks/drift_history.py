"""What is kept of the values of each partition, so that those of later ones can be compared: a few
figures and counts, and no value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trace_platform.domain.block_range import BlockRange

# To be kept, by key; None forgets one.
State = dict[str, Any]
# Of one check. More are there only while partitions are committed out of their order.
_MOST_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one partition."""

    # None where no value has a mean.
    mean: float | None
    # How many values are alike, by what they have in common.
    counts: Mapping[str, int]


class History:
    """Of one check. Partitions of blocks stand in the order of their blocks, others in that of
    their commits."""

    def __init__(self, name: str, state: Mapping[str, Any]) -> None:
        self._prefix = f"drift/{name}/"
        self._kept = {
            int(key.removeprefix(self._prefix)): value
            for key, value in state.items()
            if key.startswith(self._prefix)
        }

    def before(self, blocks: BlockRange | None, most: int) -> list[Figures]:
        """Of so many partitions before this one, the nearest first."""
        places = sorted((n for n in self._kept if blocks is None or n < blocks.start), reverse=True)
        found = (self._kept[place] for place in places[:most])
        return [Figures(each["mean"], each["counts"]) for each in found]

    def with_one(self, blocks: BlockRange | None, figures: Figures, most: int) -> State:
        """What to keep, and to forget, once the partition is committed."""
        place = max(self._kept, default=-1) + 1 if blocks is None else blocks.start
        below = sorted((each for each in self._kept if each < place), reverse=True)
        # Parts of the range had figures of their own, if it was committed in parts.
        parts = [n for n in self._kept if blocks is not None and place < n <= blocks.end]
        old = sorted(self._kept)[: max(0, len(self._kept) - _MOST_KEPT)]
        gone = {*below[2 * most :], *parts, *old}
        kept = {"mean": figures.mean, "counts": dict(figures.counts)}
        return {self._prefix + str(each): None for each in sorted(gone)} | {
            self._prefix + str(place): kept
        }


def together(each: list[Figures]) -> Counter[str]:
    found: Counter[str] = Counter()
    for figures in each:
        found.update(figures.counts)
    return found
