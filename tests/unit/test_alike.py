from __future__ import annotations

import pytest

from trace_platform.domain.alike import alike, did_you_mean, instead, listed, meant

NAMES = ["blocks", "logs", "transactions"]


def test_what_is_alike_is_asked_for() -> None:
    assert meant("blokcs", NAMES) == "did you mean blocks?"
    assert meant("zzz", NAMES) == ""
    assert meant("nope", ["invoke"]) == ""
    assert did_you_mean(["a", "b"]) == "did you mean a or b?"
    assert alike("block", ["blocks", "clock", "block_1"], 2) == ["blocks", "block_1"]


@pytest.mark.parametrize(
    ("most", "words"),
    [(3, "blocks, logs, transactions"), (2, "blocks, logs, and 1 more")],
)
def test_names_are_listed_as_far_as_they_are_read(most: int, words: str) -> None:
    assert listed(NAMES, most) == words
    assert listed([], most) == "none yet"


def test_a_hint_says_what_was_meant_and_what_there_is() -> None:
    assert instead("blok", NAMES, 1) == "did you mean blocks? there are: blocks, and 2 more"
    assert instead("zzz", [], 20, "published") == "published: none yet"
