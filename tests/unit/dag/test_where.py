"""Filters on an input: one normal form, and errors that tell the cure."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.support.corpus import corpus
from trace_platform.domain.errors import InvalidConfig
from trace_platform.wire.fitted_where import from_hex
from trace_platform.wire.where import Bound, OneOf, conditions, normalised, problems
from trace_platform.wire.where_text import WrongText, parse_where


@corpus(
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


@corpus(
    ("where", "path", "said"),
    [
        ([], (), "a filter is a mapping of columns or a condition in SQL, such as where: { "),
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


@corpus(
    ("text", "mapping"),
    [
        ("severity = 'critical'", {"severity": "critical"}),
        ("severity='it''s'", {"severity": "it's"}),
        ("code == '5'", {"code": "5"}),
        ("a >= 100 AND a < 200", {"a": {"lt": 200, "gte": 100}}),
        ("a < 200\n  and a >= 100", {"a": {"gte": 100, "lt": 200}}),
        ("a between 1 and 10 and b = 1", {"a": {"gte": 1, "lte": 10}, "b": 1}),
        ("a IN (1, 10) and b is null", {"a": {"in": [10, 1]}, "b": None}),
        ("a in ('x')", {"a": "x"}),
        ("flag = TRUE and x > -1.5", {"flag": True, "x": {"gt": -1.5}}),
        ("n = 1e3 and m = +.5", {"n": 1000, "m": 0.5}),
        (f"n = {2**256}", {"n": 2**256}),
        ("b = '0xAB'", {"b": "0xAB"}),
    ],
)
def test_a_filter_in_sql_means_what_the_mapping_means(text: str, mapping: dict[str, Any]) -> None:
    assert json.dumps(normalised(parse_where(text))) == json.dumps(normalised(mapping))


@corpus(
    ("text", "at", "path", "said"),
    [
        ("", 0, (), "is empty: leave `where` out"),
        (" \n ", 0, (), "is empty"),
        ("a", 1, ("a",), "a comparison belongs here: =, <, <=, >, >=, IN (...), BETWEEN, IS NULL"),
        ("a = 1 or b = 2", 6, (), "all conditions have to hold, so there is no OR"),
        ("a = 1; drop table t", 5, ("a",), "AND goes between two conditions (found ';')"),
        ("a = 1 and", 9, (), "a column belongs here, without quotes"),
        ("lower(a) = 'x'", 5, ("lower",), "a comparison belongs here"),
        ("'critical' = a", 0, (), "a column belongs here"),
        ('"a" = 1', 0, (), "a column belongs here"),
        ("not a = 1", 0, (), "there is no NOT"),
        ("a <> 1", 2, ("a",), "a comparison belongs here"),
        ("a is not null", 5, ("a",), "only IS NULL is there"),
        ("a = null", 4, ("a",), "in SQL nothing equals NULL: write COLUMN is null"),
        ("a in (1, null)", 9, ("a",), "in SQL nothing equals NULL"),
        ("a = critical", 4, ("a",), "text is in single quotes: write 'critical'"),
        ('a = "critical"', 4, ("a",), "text is in single quotes, not in double ones"),
        ("a = 'critical", 4, ("a",), "the quote is not closed"),
        ("a = 0xdac17f", 4, ("a",), "bytes are text too: write '0xdac17f'"),
        ("a = 1x", 4, ("a",), "a value belongs here: text in single quotes, a number"),
        ("a = b.c", 4, ("a",), "text is in single quotes"),
        ("a in 1", 5, ("a",), "IN has its values in brackets"),
        ("a in ()", 6, ("a",), "a value belongs here"),
        ("a in (1 2)", 8, ("a",), "IN has its values in brackets"),
        ("a between 1", 11, ("a",), "BETWEEN needs two values"),
        ("b = 1 and a = 1 and a = 2", 22, ("a",), "the column has a condition already"),
        ("a > 1 and a > 2", 12, ("a",), "the column has a condition already"),
        # What the mapping would be refused for too.
        ("b = 1 and a in (1, 'x')", 10, ("a", "in"), "mixes numbers and text"),
        ("a > 5 and a < 5", 10, ("a",), "nothing can match gt 5 and lt 5"),
        ("a = 1e999", 0, ("a",), "numbers lie between -2^256 and 2^256"),
        (f"a = {'9' * 5_000}", 4, ("a",), "numbers lie between"),
        (f"a = '{'x' * 1_001}'", 0, ("a",), "1,001 characters are too many"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_wrong_with_a_filter_in_sql_is_shown_with_its_place(
    text: str, at: int, path: tuple[str, ...], said: str
) -> None:
    with pytest.raises(WrongText) as wrong:
        parse_where(text)
    assert (wrong.value.at, wrong.value.path) == (at, path)
    assert wrong.value.said.startswith(said), wrong.value.said


def test_a_hostile_filter_is_refused_all_the_same() -> None:
    for text in ("a" * 65_000, "a = " + "'" * 65_001, "a in (" + "1," * 30_000, "1" * 65_000):
        with pytest.raises(WrongText):
            parse_where(text)


def test_bytes_are_written_as_hex() -> None:
    assert [from_hex("address", value) for value in ("0xAB", "0x")] == [b"\xab", b""]
    for wrong in ("ab", "0xabc", "0xzz", 171, True):
        with pytest.raises(InvalidConfig, match=r"where\.address: the column holds bytes"):
            from_hex("address", wrong)
