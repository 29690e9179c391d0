"""How a transform moves forward is said in one way, and what does not fit is told with the cure."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.corpus import corpus
from trace_platform.operators.transform.mode import Around, TransformConfig, Window

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no bucket": ({}, "give either every_blocks: N, or every: 1h with most_blocks: N"),
    "two kinds of buckets": (
        {"every_blocks": 10, "every": "1h", "most_blocks": 300},
        "give either every_blocks: N, or every: 1h with most_blocks: N",
    ),
    "no bound": ({"every": "1h"}, "every needs most_blocks: as many blocks as one bucket of time"),
    "a bound of blocks": (
        {"every_blocks": 10, "most_blocks": 300},
        "most_blocks belongs to every, and these are buckets of blocks",
    ),
    "blocks around a time": (
        {"every": "1h", "most_blocks": 300, "before": 5, "time": "hour"},
        "before and after are times with every, such as 2h, and not 5 blocks",
    ),
    "time around blocks": (
        {"every_blocks": 10, "inputs": {"input_1": {"after": "2h"}}},
        "before and after are blocks with every_blocks, such as 100, and not '2h'",
    ),
    "around a time without the result's": (
        {"every": "1h", "most_blocks": 300, "before": "5h"},
        "before and after need time: the column of the result",
    ),
    "the result's time of blocks": (
        {"every_blocks": 10, "before": 5, "time": "hour"},
        "time belongs to every with before or after",
    ),
    "a unit that is none": ({"every": "1 hour", "most_blocks": 300}, "pattern"),
}


@corpus("case", WRONG)
def test_a_window_that_does_not_fit_says_why(case: str) -> None:
    window, said = WRONG[case]
    with pytest.raises(ValidationError, match=said):
        TransformConfig.model_validate({"mode": "window", "window": window})


def test_a_bucket_of_time_reads_as_far_as_it_may_reach() -> None:
    window = Window.model_validate({"every": "2h", "most_blocks": 300})
    assert window.seconds == 7_200
    assert window.bucket_blocks == 1_200
    assert window.around(3) == Around(before=299, after=300)


def test_a_bucket_of_time_reads_whole_ones_around_it() -> None:
    around = {"before": "90m", "inputs": {"input_1": {"after": "1s"}}, "time": "hour"}
    window = Window.model_validate({"every": "1h", "most_blocks": 300, **around})
    assert window.buckets_around(0) == Around(2, 0)
    assert window.around(0) == Around(299 + 600, 300)
    assert window.around(1) == Around(299, 300 + 300)


def test_what_is_no_aggregate_of_a_fold_is_told_with_what_is_one() -> None:
    values = {"n": "cuont(amount)"}
    with pytest.raises(ValidationError, match=r"'cuont\(amount\)' is no .*; did you mean count\?"):
        TransformConfig.model_validate({"mode": "fold", "fold": {"values": values}})
