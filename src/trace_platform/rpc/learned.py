"""What a provider was seen not to have: methods, old blocks, the answers that most give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

# A block number beyond every other one.
_EVERY_BLOCK = 1 << 62


@dataclass(slots=True, eq=False)
class Learned:
    """Who lacks something is asked for it after the others, never left out: it may be the last one
    that can answer. Forgotten after a while, since a node may be upgraded."""

    clock: Callable[[], float]
    forget_s: float
    # By method: up to which block it does not answer, and until when that is believed.
    _lacks: dict[str, tuple[int, float]] = field(default_factory=dict)
    # Methods to which it said something else than most, and until when that is held against it.
    _differs: dict[str, float] = field(default_factory=dict)

    def lacks_method(self, method: str) -> None:
        self._lacks[method] = _EVERY_BLOCK, self._end

    def lacks_block(self, method: str, block: int) -> None:
        """It does not answer the method for this block, nor then for older ones."""
        highest, until = self._lacks.get(method, (-1, 0.0))
        known = highest if until > self.clock() else -1
        self._lacks[method] = max(known, block), self._end

    def differs(self, method: str) -> None:
        self._differs[method] = self._end

    def doubts(self, oldest: Mapping[str, int]) -> bool:
        """Whether one of these methods is better asked of another one. By method: the oldest
        block; -1: none is named."""
        now = self.clock()
        return any(self._doubts(method, block, now) for method, block in oldest.items())

    def __bool__(self) -> bool:
        return bool(self._lacks or self._differs)

    def __str__(self) -> str:
        """For people; empty when nothing is held against it."""
        now = self.clock()
        lacks = ", ".join(sorted(self._told(now)))
        differs = ", ".join(sorted(m for m, until in self._differs.items() if until > now))
        said = [f"it does not answer {lacks}"] if lacks else []
        said += [f"it says something else than most to {differs}"] if differs else []
        return "; ".join(said)

    def _doubts(self, method: str, block: int, now: float) -> bool:
        highest, until = self._lacks.get(method, (-1, 0.0))
        is_lacking = until > now and (0 <= block <= highest or highest == _EVERY_BLOCK)
        return is_lacking or self._differs.get(method, 0.0) > now

    def _told(self, now: float) -> Iterator[str]:
        for method, (highest, until) in self._lacks.items():
            if until > now:
                yield method if highest == _EVERY_BLOCK else f"{method} up to block {highest:,}"

    @property
    def _end(self) -> float:
        return self.clock() + self.forget_s
