from __future__ import annotations

import inspect

import pytest

from tests.support.corpus import corpus


def test_every_case_runs_and_each_failure_is_named() -> None:
    seen = []

    @corpus(("number", "letter"), [(1, "a"), pytest.param(2, "b", id="the second"), (3, "c")])
    def odd(number: int, letter: str, ground: list[str]) -> None:
        seen.append(f"{number}{letter}{ground[0]}")
        if number == 3:
            pytest.fail("three")
        assert number % 2, f"{letter} is even"

    assert list(inspect.signature(odd).parameters) == ["ground"]
    with pytest.raises(AssertionError) as failed:
        odd(ground=["!"])
    assert seen == ["1a!", "2b!", "3c!"]
    said = str(failed.value)
    assert said.startswith("2 of 3 cases failed")
    assert "the second\nAssertionError: b is even" in said
    assert "3, 'c'\nFailed: three" in said


def test_two_corpora_meet_in_every_pair() -> None:
    seen = []

    @corpus("left", ["a", "b"])
    @corpus("right", {"x": 1, "y": 2})
    def pairs(left: str, right: str) -> None:
        seen.append(left + right)

    pairs()
    assert seen == ["ax", "ay", "bx", "by"]


def test_a_corpus_without_cases_is_refused() -> None:
    with pytest.raises(AssertionError, match="proves nothing"):
        corpus("case", [])
