"""Freshness by ranges is freshness by blocks."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.corpus import corpus
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.freshness import (
    REDONE,
    Change,
    Partition,
    Read,
    as_one,
    is_older,
    left_of,
    reads_of,
)

BLOCKS = 12


@st.composite
def spans(draw: st.DrawFn) -> BlockRange:
    start = draw(st.integers(0, BLOCKS - 1))
    return BlockRange(start, draw(st.integers(start, BLOCKS - 1)))


reads = st.builds(
    Read,
    input_index=st.integers(0, 1),
    version=st.sampled_from("vw"),
    position=st.integers(0, 3),
    span=spans(),
)
changes = st.builds(
    Change,
    input_index=st.integers(0, 1),
    version=st.sampled_from("vw"),
    changed_at=st.none() | st.integers(0, 3),
    span=spans(),
)


@st.composite
def outputs(draw: st.DrawFn) -> list[Partition]:
    """Current partitions never overlap."""
    borders = sorted(draw(st.sets(st.integers(0, BLOCKS), max_size=5)))
    found = [BlockRange(a, b - 1) for a, b in pairwise(borders)]
    return [
        Partition(span.key, span, tuple(draw(st.lists(reads, max_size=3))))
        for span in found
        if draw(st.booleans())
    ]


def blocks(span: BlockRange | None) -> set[int]:
    return set() if span is None else set(range(span.start, span.end + 1))


def holds(partition: Partition, change: Change, block: int) -> bool:
    """By the definition: read in this version, at this block, at the change or after it."""
    return block in blocks(partition.span) and any(
        (read.input_index, read.version) == (change.input_index, change.version)
        and change.changed_at is not None
        and read.position >= change.changed_at
        and block in blocks(read.span)
        for read in partition.made_of
    )


@given(changes, st.lists(outputs(), max_size=3))
def test_what_is_left_of_a_change_is_what_some_output_does_not_hold(
    change: Change, held: list[list[Partition]]
) -> None:
    left = {block for part in left_of(change, held) for block in blocks(part)}
    expected = {
        block
        for block in blocks(change.span)
        if not held or any(not any(holds(p, change, block) for p in output) for output in held)
    }
    assert left == expected


@given(st.lists(st.tuples(st.integers(0, 1), spans()), max_size=5), st.integers(0, 3))
def test_an_attempt_has_read_the_blocks_of_its_inputs(
    woken: list[tuple[int, BlockRange]], position: int
) -> None:
    inputs = [
        {
            "input_index": index,
            "dataset_version": "v",
            "read_at": position,
            "start": span.start,
            "end": span.end,
        }
        for index, span in woken
    ]
    read = reads_of(inputs)
    for index in (0, 1):
        expected = {block for i, span in woken if i == index for block in blocks(span)}
        own = [each for each in read if each.input_index == index]
        assert {block for each in own for block in blocks(each.span)} == expected
    assert [Read.of(each.stored()) for each in read] == read


@given(st.lists(reads, max_size=4), st.lists(reads, max_size=4))
def test_of_two_attempts_the_older_one_lacks_a_change(ours: list[Read], theirs: list[Read]) -> None:
    """An attempt reads each version at one position."""
    ours = list({(read.input_index, read.version): read for read in ours}.values())
    lacks = any(
        (a.input_index, a.version) == (b.input_index, b.version) and a.position < b.position
        for a in ours
        for b in theirs
    )
    assert is_older(ours, theirs) == lacks


def test_who_began_before_anything_was_asked_for_once_more_is_older_than_who_knows_of_it() -> None:
    ours, asked = [Read(0, "v", 1)], Read(REDONE, "g", 1)
    assert is_older(ours, [Read(0, "v", 1), asked])
    assert not is_older([*ours, asked], [Read(0, "v", 1), asked])
    assert not is_older([*ours, asked], ours)


def of_tick(tick: int, position: int) -> Partition:
    return Partition("all", None, (Read(0, "v", position, tick=tick), Read(1, "w", 9)))


@corpus(
    ("held", "change", "is_held"),
    [
        (of_tick(200, 5), Change(0, "v", 4, tick=100), True),
        (of_tick(200, 5), Change(0, "v", 5, tick=200), True),
        # Made when the newer tick was there, but for the older one.
        (of_tick(100, 5), Change(0, "v", 5, tick=200), False),
        # An older tick that arrived later.
        (of_tick(200, 5), Change(0, "v", 6, tick=100), True),
        # To be done once more; of an older tick there is nothing left to do.
        (of_tick(200, 5), Change(0, "v", None, tick=200), False),
        (of_tick(200, 5), Change(0, "v", None, tick=100), True),
        (of_tick(200, 5), Change(0, "other", 1, tick=100), False),
        (of_tick(200, 5), Change(1, "v", 1, tick=100), False),
        # Of before ticks were written down.
        (Partition("all", None, (Read(0, "v", 5),)), Change(0, "v", 4, tick=100), False),
    ],
)
def test_an_answer_holds_its_tick_and_those_before(
    held: Partition, change: Change, is_held: bool
) -> None:
    assert held.holds_key(change) is is_held


def test_an_attempt_for_several_ticks_is_for_the_newest() -> None:
    tick = {"input_index": 0, "dataset_version": "v", "read_at": 7}
    ticks = [tick | {"cursor": n, "tick": n} for n in (100, 300, 200)]
    (read,) = reads_of(ticks)
    assert read == Read(0, "v", 7, tick=300)
    assert Read.of(read.stored()) == read


@settings(max_examples=1_000)
@given(outputs(), changes, st.lists(reads, max_size=3))
def test_partitions_that_become_one_hold_what_each_of_them_held_and_know_all(
    partitions: list[Partition], change: Change, ours: list[Read]
) -> None:
    if not partitions:
        return
    made_of, knows = as_one(partitions)
    span = BlockRange(partitions[0].span.start, partitions[-1].span.end)  # type: ignore[union-attr]
    one = Partition(span.key, span, tuple(made_of), tuple(knows))
    before = {n for each in partitions for part in each.held(change) for n in blocks(part)}
    after = {n for part in one.held(change) for n in blocks(part)}
    assert after <= before | blocks_beside(partitions, span), "nothing passes for done"
    for each in partitions:
        if is_older(ours, each.made_of):
            assert is_older(ours, [*one.made_of, *one.knows])


def blocks_beside(partitions: list[Partition], span: BlockRange) -> set[int]:
    """Of a hole, and of what one had read beside its own range, nobody asks."""
    own = {n for each in partitions for n in blocks(each.span)}
    return blocks(span) - own
