"""Which partitions of a fold become one, so that readers merge few of them.

Levels, as a counter has digits: as soon as neighbours that are each shorter than a level are as
long as it together, they become one of that level. Of n blocks there are at most `_BASE` partitions
for each digit of n, and each row is merged once for each digit.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_platform.domain.block_range import BlockRange

_BASE = 32
# Of blocks that are younger than this nothing is merged: a reorg does as many of them anew as it
# has, and not a whole level.
YOUNG_BLOCKS = 128


def to_merge(parts: Sequence[BlockRange]) -> list[BlockRange]:
    """Of partitions in order: ranges that become one partition each, none of them twice."""
    if not parts:
        return []
    old = [part for part in parts if part.end <= parts[-1].end - YOUNG_BLOCKS]
    found: list[BlockRange] = []
    level = _BASE
    while old and level <= len(BlockRange(old[0].start, old[-1].end)):
        found += [span for span in _of_level(old, level) if not _is_within(span, found)]
        level *= _BASE
    return found


def _of_level(parts: Sequence[BlockRange], level: int) -> list[BlockRange]:
    """Neighbours shorter than a level that are as long as it together, as few as will do."""
    found: list[BlockRange] = []
    run: list[BlockRange] = []
    for part in parts:
        if len(part) >= level or (run and run[-1].end + 1 != part.start):
            run = []
        if len(part) < level:
            run.append(part)
        if run and run[-1].end - run[0].start + 1 >= level:
            found.append(BlockRange(run[0].start, run[-1].end))
            run = []
    return found


def _is_within(span: BlockRange, others: Sequence[BlockRange]) -> bool:
    """Whether it has blocks of others, which are merged first."""
    return any(each.start <= span.end and span.start <= each.end for each in others)
