"""Filters on an input: one normal form, and errors that tell the cure."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from trace_platform.domain.errors import InvalidConfig
from trace_platform.wire.fitted_where import from_hex
from trace_platform.wire.where import Bound, OneOf, conditions, normalised, problems


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1.0}),
        ({"a": {"in": [3, 1, 3]}}, {"a": {"in": [1.0, 3]}}),
        ({"a": {"in": ["x"]}}, {"a": "x"}),
        ({"a": {"in": [None]}}, {"a": None}),
        ({"a": {"lt": 2, "gt": 1}}, {"a": {"gt": 1, "lt": 2}}),
        ({"a": -0.0}, {"a": 0}),
        ({"a": 1e30}, {"a": 10**30 + 19884624838656}),
    ],
    ids=repr,
)
def test_filters_that_mean_the_same_have_one_normal_form(one: Any, other: Any) -> None:
    assert json.dumps(normalised(one)) == json.dumps(normalised(other))
    assert normalised(normalised(one)) == normalised(one)


def test_those_who_evaluate_a_filter_get_its_conditions() -> None:
    where = {"a": 1, "b": {"in": ["x", "y", None]}, "c": {"gt": 1, "lte": 2}, "d": None}
    assert list(conditions(where)) == [
        OneOf("a", (1,)),
        OneOf("b", ("x", "y"), or_null=True),
        Bound("c", "gt", 1),
        Bound("c", "lte", 2),
        OneOf("d", (), or_null=True),
    ]


@pytest.mark.parametrize(
    ("where", "path", "said"),
    [
        ([], (), "a filter is a mapping of columns, such as where: { severity: critical, "),
        ({"1a": 1}, ("1a",), "a column is letters, digits and '_', not a digit first"),
        ({'a" OR 1=1': 1}, ('a" OR 1=1',), "a column is letters, digits and '_'"),
        ({"a" * 129: 1}, ("a" * 129,), "a column is letters"),
        ({"a\n": 1}, ("a\n",), "a column is letters"),
        ({5: 1}, ("5",), "a column is letters"),
        ({"a": 1, "A": 1}, ("A",), "differs from 'a' only in upper and lower case"),
        ({"a": [1]}, ("a",), "write a list of values as { in: [...] }"),
        ({"a": {}}, ("a",), "say which values: a value, or one of in, gt, gte, lt, lte"),
        ({"a": {"equals": 1}}, ("a", "equals"), "unknown condition; known here: in, gt, gte"),
        ({"a": {"gtt": 1}}, ("a", "gtt"), "unknown condition; did you mean 'gt"),
        ({"a": {"in": []}}, ("a", "in"), "an empty list matches nothing"),
        ({"a": {"in": 1}}, ("a", "in"), "needs a list, such as { in: [1, 10] }"),
        ({"a": {"in": [1], "gt": 0}}, ("a",), "'in' stands alone"),
        ({"a": {"in": [1, "x"]}}, ("a", "in"), "mixes numbers and text: use one kind of value"),
        ({"a": {"in": [1, True]}}, ("a", "in"), "mixes numbers and true or false"),
        ({"a": {"in": [1, [2]]}}, ("a", "in", 1), "is no single value"),
        ({"a": {"gte": 1, "lt": "x"}}, ("a",), "mixes numbers and text"),
        ({"a": {"gt": 5, "lt": 5}}, ("a",), "nothing can match gt 5 and lt 5"),
        ({"a": {"gte": 5, "lt": 5}}, ("a",), "nothing can match gte 5 and lt 5"),
        ({"a": {"gte": "b", "lte": "a"}}, ("a",), "nothing can match gte 'b' and lte 'a'"),
        ({"a": {"gt": 1, "gte": 2}}, ("a",), "give gt or gte, not both"),
        ({"a": {"lt": None}}, ("a", "lt"), "a range has numbers or text as its ends"),
        ({"a": {"lt": True}}, ("a", "lt"), "a range has numbers or text as its ends"),
        ({"a": math.nan}, ("a",), "numbers lie between -2^256 and 2^256"),
        ({"a": -math.inf}, ("a",), "numbers lie between"),
        ({"a": 2**256 + 1}, ("a",), "numbers lie between"),
        ({"a": 2**5000}, ("a",), "numbers lie between"),
        ({"a": 1e300}, ("a",), "numbers lie between"),
        ({"a": "x" * 1001}, ("a",), "1,001 characters are too many, 1,000 at most"),
        ({"a": "\0"}, ("a",), "has a character that no database stores"),
        ({"a": "\ud800"}, ("a",), "has a character that no database stores"),
        ({"a": b"x"}, ("a",), "is no single value: use text (a date in quotes), a number or null"),
        ({f"c{i}": 1 for i in range(33)}, (), "33 columns are too many, 32 at most"),
        ({"a": {"in": [*range(1001)]}}, (), "1,001 values are too many, 1,000 at most"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_wrong_is_shown_with_its_place_and_its_cure(
    where: Any, path: tuple[str | int, ...], said: str
) -> None:
    found = list(problems(where))
    assert [each for each in found if each[0] == path and each[1].startswith(said)], found
    with pytest.raises(InvalidConfig, match="where"):
        normalised(where)


def test_the_limits_themselves_are_allowed() -> None:
    columns = {f"c{i}": 2**256 for i in range(30)}
    large = {
        "a": "x" * 1000,
        "b" * 128: {"gte": -(2**256), "lte": 5},
        "c" * 10: {"in": [*range(967)]},
    }
    assert not list(problems({"a": {"gte": 5, "lte": 5}}))
    assert not list(problems({**columns, "a": 1}))
    assert not list(problems(large))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("severity = 'critical'", "where: {severity: critical}"),
        ("severity='it''s'", "where: {severity: it's}"),
        ("code = '5'", "where: {code: '5'}"),
        ("a >= 100 AND a < 200", "where: {a: {gte: 100, lt: 200}}"),
        ("a IN (1, 10) and b is null", "where: {a: {in: [1, 10]}, b: null}"),
        ("flag = TRUE and x > -1.5", "where: {flag: true, x: {gt: -1.5}}"),
    ],
)
def test_a_condition_in_sql_is_refused_with_the_mapping_that_says_the_same(
    text: str, right: str
) -> None:
    assert list(problems(text)) == [((), f"write a filter as a mapping: {right}")]


@pytest.mark.parametrize(
    "text", ["", "a", "a = 1 or b = 2", "a = 1; drop table t", "lower(a) = 'x'", "a = 1 and a = 2"]
)
def test_a_condition_that_has_no_mapping_is_refused_with_an_example(text: str) -> None:
    ((_, said),) = problems(text)
    assert said.startswith("write a filter as a mapping: such as where: { severity: critical")


def test_bytes_are_written_as_hex() -> None:
    assert [from_hex("address", value) for value in ("0xAB", "0x")] == [b"\xab", b""]
    for wrong in ("ab", "0xabc", "0xzz", 171, True):
        with pytest.raises(InvalidConfig, match=r"where\.address: the column holds bytes"):
            from_hex("address", wrong)
