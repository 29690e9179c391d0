"""Inclusive block ranges and their partition keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trace_platform.domain.errors import BadInput

# Fits a bigint, and so does the length of any range.
MAX_BLOCK = 2**62
_KEY = re.compile(r"(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True, order=True)
class BlockRange:
    """Blocks `start` to `end`, both included."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.end < self.start:
            raise BadInput(
                f"block range {self.start}-{self.end} is empty or negative",
                hint="give a first block of 0 or more and a last block that is not before it",
            )

    @classmethod
    def parse(cls, key: str) -> BlockRange:
        match = _KEY.fullmatch(key)
        if match is None:
            raise BadInput(
                f"partition key {key!r} is not a block range", hint="write it as START-END"
            )
        return cls(int(match[1]), int(match[2]))

    @property
    def key(self) -> str:
        return f"{self.start}-{self.end}"

    def __len__(self) -> int:
        return self.end - self.start + 1

    def split(self, size: int) -> Iterator[BlockRange]:
        """Pieces cut at multiples of `size`, so that overlapping requests share their keys."""
        if size < 1:
            raise BadInput(f"a range cannot be split into pieces of {size} blocks")
        start = self.start
        while start <= self.end:
            end = min(self.end, start - start % size + size - 1)
            yield BlockRange(start, end)
            start = end + 1
