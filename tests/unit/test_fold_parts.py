"""Which partitions of a fold become one: so many that readers merge few, and each row rarely."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.fold_parts import YOUNG_BLOCKS, to_merge


def grown(parts: list[BlockRange]) -> list[BlockRange]:
    """After as many rounds as there is something to merge."""
    while spans := to_merge(parts):
        for span in spans:
            parts = [part for part in parts if not span.start <= part.start <= span.end]
            parts = sorted([*parts, span], key=lambda part: part.start)
    return parts


def test_many_blocks_that_came_one_by_one_are_few_partitions() -> None:
    parts: list[BlockRange] = []
    merged = 0
    for number in range(0, 200_000, 10):
        parts.append(BlockRange(number, number + 9))
        for span in to_merge(parts):
            merged += len(span)
            parts = [p for p in parts if not span.start <= p.start <= span.end]
            parts = sorted([*parts, span], key=lambda part: part.start)
    assert len(parts) < 150
    assert merged < 4 * 200_000, "each block is merged once for each level"


def test_what_is_young_stays_as_it_is() -> None:
    parts = [BlockRange(number, number) for number in range(200)]
    assert to_merge(parts) == [BlockRange(0, 31), BlockRange(32, 63)]
    assert 200 - YOUNG_BLOCKS == 72


def test_what_is_not_there_yet_lies_in_no_partition() -> None:
    """A hole would pass for blocks that were read."""
    parts = [BlockRange(n, n) for n in [*range(20), *range(25, 60)]] + [BlockRange(60, 300)]
    assert to_merge(parts) == [BlockRange(25, 56)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 90)), max_size=60))
def test_the_same_blocks_are_there_after_any_number_of_rounds(
    cuts: list[tuple[int, int]],
) -> None:
    parts, at = [], 0
    for gap, size in cuts:
        parts.append(BlockRange(at + gap, at + gap + size - 1))
        at += gap + size
    after = grown(parts)
    assert blocks(after) == blocks(parts)
    assert all(one.end < other.start for one, other in pairwise(after))


def blocks(parts: list[BlockRange]) -> set[int]:
    return {number for part in parts for number in range(part.start, part.end + 1)}
