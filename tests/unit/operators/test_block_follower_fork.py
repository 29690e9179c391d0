"""Where two chains part is found exactly, with few questions, and never guessed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_platform.operators.follow.fork import ChainMoved, Fork, find_fork
from trace_platform.operators.follow.window import Window

Chain = list[bytes]
chances = st.randoms(use_true_random=False)


def chain(length: int, fork: bytes = b"main", base: Sequence[bytes] = ()) -> Chain:
    return [*base, *(b"%s-%d" % (fork, n) for n in range(len(base), length))]


def window_of(hashes: Chain, keep: int = 10_000) -> Window:
    return Window(keep, reversed(list(enumerate(hashes))))


class Node:
    def __init__(self, hashes: Chain) -> None:
        self.hashes = hashes
        self.rounds: list[int] = []

    def ask(self, numbers: Sequence[int]) -> list[bytes | None]:
        self.rounds.append(len(numbers))
        return [self.hashes[n] if n < len(self.hashes) else None for n in numbers]


@settings(max_examples=60)
@given(chances)
def test_a_fork_of_any_depth_is_found_exactly(rng: random.Random) -> None:
    ours = chain(rng.randint(2, 9_000))
    depth = rng.choice([1, 2, 8, 70, rng.randint(1, len(ours) - 1)])
    depth = min(depth, len(ours) - 1)
    parent = len(ours) - depth - 1
    theirs = chain(parent + 1 + rng.randint(1, 2 * depth), b"fork", ours[: parent + 1])
    node = Node(theirs)
    top = min(len(ours), len(theirs)) - 1
    fork = find_fork(window_of(ours), top, node.ask)
    assert fork == Fork(parent, parent + 1, ours[parent + 1], theirs[parent + 1])
    assert len(node.rounds) <= 5
    assert max(node.rounds) <= 16


@settings(max_examples=30)
@given(chances)
def test_a_provider_that_lags_has_no_fork(rng: random.Random) -> None:
    ours = chain(rng.randint(1, 500))
    theirs = ours[: rng.randint(1, len(ours))]
    assert find_fork(window_of(ours), len(theirs) - 1, Node(theirs).ask) is None


@settings(max_examples=30)
@given(chances)
def test_a_fork_older_than_the_window_begins_at_its_oldest_block(rng: random.Random) -> None:
    ours = chain(rng.randint(100, 500))
    keep = rng.randint(2, 90)
    theirs = chain(len(ours), b"fork", ours[: rng.randint(0, len(ours) - keep)])
    window = window_of(ours, keep)
    fork = find_fork(window, len(ours) - 1, Node(theirs).ask)
    oldest = len(ours) - keep
    assert window.oldest == oldest
    assert fork == Fork(None, oldest, ours[oldest], theirs[oldest])


@settings(max_examples=60)
@given(chances)
def test_answers_of_two_chains_are_either_seen_through_or_a_true_fork(rng: random.Random) -> None:
    """Each question is answered by another provider."""
    ours = chain(300)
    first = chain(300, b"first", ours[: rng.randint(1, 299)])
    other = rng.choice([ours, ours[:200], chain(300, b"other", ours[: rng.randint(1, 299)])])
    nodes = [Node(first), Node(other)]

    def ask(numbers: Sequence[int]) -> list[bytes | None]:
        return nodes[rng.randint(0, 1)].ask(numbers)

    try:
        fork = find_fork(window_of(ours), 299, ask)
    except ChainMoved:
        return
    if fork is not None and fork.parent is not None:
        assert fork.new_hash != ours[fork.start]
        assert fork.start == fork.parent + 1


def test_a_block_that_goes_while_it_is_looked_for_is_no_fork() -> None:
    ours = chain(20)
    with pytest.raises(ChainMoved):
        find_fork(window_of(ours), 19, Node(ours[:10]).ask)


def test_a_same_block_above_another_one_is_no_chain() -> None:
    ours = chain(20)
    odd = [*ours]
    odd[18] = b"odd"
    with pytest.raises(ChainMoved):
        find_fork(window_of(ours), 19, Node(odd).ask)


def test_the_window_follows_what_is_written() -> None:
    window = window_of(chain(5), keep=4)
    assert (window.oldest, window.last, window.get(0)) == (1, 4, None)
    window.replace([(3, b"c"), (4, b"d"), (5, b"e")])
    known = [window.get(n) for n in range(1, 7)]
    assert known == [None, b"main-2", b"c", b"d", b"e", None]
    window.replace([(2, b"x")])
    assert (window.oldest, window.last, window.last_hash) == (2, 2, b"x")
    window.replace([(0, b"y")])
    assert (window.oldest, window.last) == (0, 0)


def test_hashes_with_a_hole_are_known_only_down_to_it() -> None:
    window = Window(10, [(9, b"9"), (8, b"8"), (5, b"5")])
    assert (window.oldest, window.last) == (8, 9)
