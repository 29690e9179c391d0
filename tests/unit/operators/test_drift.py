"""Drift: what is compared with what, and what is kept for the partitions that follow."""

from __future__ import annotations

import math
from typing import Any

import pytest

from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.row_checks.drift import divergence, z_score
from trace_platform.operators.row_checks.drift_history import Figures, History


def keep(state: dict[str, Any], *ranges: tuple[int, int] | None, most: int = 2) -> dict[str, Any]:
    """After a commit of each, with its first block as the mean."""
    for each in ranges:
        blocks = BlockRange(*each) if each else None
        figures = Figures(float(each[0]) if each else float(len(state)), {"1": 1})
        state |= History("0/drift_a", state).with_one(blocks, figures, most)
        state = {key: value for key, value in state.items() if value is not None}
    return state


def means(state: dict[str, Any], blocks: tuple[int, int] | None, most: int = 9) -> list[Any]:
    span = BlockRange(*blocks) if blocks else None
    return [each.mean for each in History("0/drift_a", state).before(span, most)]


def test_partitions_of_blocks_are_compared_with_the_nearest_below_them() -> None:
    state = keep({}, (10, 19), (0, 9), (30, 39), (20, 29), most=9)
    assert means(state, (30, 39)) == [20, 10, 0]
    assert means(state, (30, 39), most=2) == [20, 10]
    assert means(state, (0, 9)) == []
    assert means({**state, "drift/0/drift_b/5": {}}, (10, 19)) == [0]


def test_a_partition_that_takes_the_place_of_others_takes_that_of_their_figures() -> None:
    state = keep({}, (0, 9), (10, 19), (20, 29), (10, 29), most=9)
    assert means(state, (30, 39)) == [10, 0]


def test_what_is_no_range_is_compared_with_the_commits_before() -> None:
    state = keep({}, None, None, None, most=9)
    assert means(state, None) == [2, 1, 0]


def test_what_nobody_compares_with_any_more_is_forgotten() -> None:
    state = keep({}, *((n * 10, n * 10 + 9) for n in range(50)))
    assert means(state, (500, 509)) == [490, 480, 470, 460, 450]
    backwards = keep({}, *((n, n) for n in range(1_100, 0, -1)))
    assert len(backwards) == 1_001
    assert len(keep(backwards, (2_000, 2_000))) == 5


@pytest.mark.parametrize(
    ("value", "before", "expected"),
    [
        (5.0, [1.0, 3.0], 3 / math.sqrt(2)),
        (3.0, [3.0, 3.0], 0.0),
        (0.3, [0.1 + 0.2, 0.3], 0.0),
        (3.1, [3.0, 3.0], math.inf),
    ],
)
def test_how_far_a_mean_is_from_those_of_before(
    value: float, before: list[float], expected: float
) -> None:
    assert z_score(value, before) == pytest.approx(expected)


def test_values_as_before_do_not_diverge_and_others_do_the_more_the_more_there_are() -> None:
    before = {"1": 500, "2": 500}
    assert divergence({"1": 50, "2": 50}, before) < 0.001
    little, much = {"1": 60, "2": 40}, {"1": 95, "2": 5}
    assert 0.001 < divergence(little, before) < divergence(much, before)
    assert divergence({"3": 100}, before) > divergence(much, before)
