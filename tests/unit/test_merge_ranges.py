"""Merging names the same blocks as before, in as few ranges as can be."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.merge_ranges import gaps, merge_ranges


@st.composite
def spans(draw: st.DrawFn) -> BlockRange:
    start = draw(st.integers(0, 60))
    return BlockRange(start, start + draw(st.integers(0, 12)))


RANGES = st.lists(spans(), max_size=20)


def blocks(ranges: list[BlockRange]) -> set[int]:
    return {block for each in ranges for block in range(each.start, each.end + 1)}


@given(RANGES)
def test_merging_loses_no_block_and_adds_none(named: list[BlockRange]) -> None:
    assert blocks([merged.span for merged in merge_ranges(named)]) == blocks(named)


@given(RANGES)
def test_merged_ranges_neither_overlap_nor_touch(named: list[BlockRange]) -> None:
    merged = [each.span for each in merge_ranges(named)]
    assert all(a.end + 1 < b.start for a, b in pairwise(merged))


@given(RANGES)
def test_each_range_is_a_member_of_the_one_that_holds_it(named: list[BlockRange]) -> None:
    merged = merge_ranges(named)
    assert sorted(n for each in merged for n in each.members) == list(range(len(named)))
    for each in merged:
        members = [named[n] for n in each.members]
        assert each.span == BlockRange(min(m.start for m in members), max(m.end for m in members))


@given(RANGES, st.randoms(use_true_random=False))
def test_the_order_in_which_they_were_named_does_not_matter(
    named: list[BlockRange], rng: Random
) -> None:
    shuffled = list(named)
    rng.shuffle(shuffled)
    assert [m.span for m in merge_ranges(shuffled)] == [m.span for m in merge_ranges(named)]


def test_a_chain_of_many_that_overlap_is_one() -> None:
    chain = [BlockRange(10 * n, 10 * n + 10) for n in range(1_000)]
    (only,) = merge_ranges(chain)
    assert only.span == BlockRange(0, 10_000)


@given(spans(), RANGES)
def test_gaps_are_what_the_span_has_and_the_ranges_have_not(
    span: BlockRange, held: list[BlockRange]
) -> None:
    found = list(gaps(span, held))
    assert blocks(found) == blocks([span]) - blocks(held)
    assert all(a.end + 1 < b.start for a, b in pairwise(found))
