"""How a transform moves forward is said in one way, and what does not fit is told with the cure."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.corpus import corpus
from trace_platform.operators.transform.mode import LookAround, TransformConfig, Window

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
    "look-back in time": (
        {"every": "1h", "most_blocks": 300, "before": 5},
        "before, after and inputs belong to every_blocks, and this has every",
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
    assert window.around(3) == LookAround(before=299, after=300)
