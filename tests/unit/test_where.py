"""Filters on an input: one normal form, SQL that means what it says, errors that tell the cure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_platform.domain.errors import InvalidConfig
from trace_platform.wire.where import Bound, OneOf, conditions, normalised, problems, to_sql

Row = dict[str, Any]


@pytest.mark.parametrize(
    ("where", "condition", "parameters"),
    [
        ({}, "true", []),
        ({"severity": "critical"}, '"severity" = $1', ["critical"]),
        ({"severity": None}, '"severity" IS NULL', []),
        ({"chain_id": {"in": [10, 1]}}, '"chain_id" IN ($1, $2)', [1, 10]),
        ({"a": {"in": [1, None]}}, '("a" = $1 OR "a" IS NULL)', [1]),
        ({"b": {"gte": 100, "lt": 200}}, '"b" >= $1 AND "b" < $2', [100, 200]),
        ({"b": True, "a": "x"}, '"a" = $1 AND "b" = $2', ["x", True]),
        ({"a": {"in": [1, 2.5]}}, '("a" = $1 OR "a" = $2)', [1, 2.5]),
    ],
    ids=repr,
)
def test_a_filter_becomes_a_condition_with_parameters(
    where: dict[str, Any], condition: str, parameters: list[Any]
) -> None:
    assert to_sql(where) == (condition, parameters)


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
    for refuse in (normalised, to_sql):
        with pytest.raises(InvalidConfig, match="where"):
            refuse(where)


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
    where = {"address": {"in": ["0xAB", "0x"]}, "name": "0xab"}
    assert to_sql(where, binary={"address"})[1] == [b"", b"\xab", "0xab"]
    for wrong in ("ab", "0xabc", "0xzz", 171, True):
        with pytest.raises(InvalidConfig, match=r"where\.address: the column holds bytes"):
            to_sql({"address": wrong}, binary={"address"})


# The SQL against what the words mean: rows as Python sees them.

TYPES = {"n": "BIGINT", "h": "HUGEINT", "x": "DOUBLE", "s": "VARCHAR", "b": "BOOLEAN"}
TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "h": st.integers(-3, 3) | st.integers(-(2**100), 2**100),
    "x": st.integers(-3, 3).map(float) | st.floats(-4, 4) | st.just(math.nan) | st.just(1e40),
    "s": st.sampled_from(["a", "b", "it's", '"', "'", "\\", ""]) | TEXT,
    "b": st.booleans(),
}
NUMBERS = st.integers(-3, 3) | st.floats(-4, 4) | st.sampled_from([2**63, -(2**100), 2**256, 0.5])
SOUGHT: dict[str, st.SearchStrategy[Any]] = {
    "n": NUMBERS | VALUES["n"],
    "h": NUMBERS,
    "x": NUMBERS,
    "s": VALUES["s"],
    "b": VALUES["b"],
}
ROWS = st.lists(st.fixed_dictionaries({c: st.none() | v for c, v in VALUES.items()}), max_size=8)


def a_condition(column: str) -> st.SearchStrategy[Any]:
    value = SOUGHT[column]
    lists = st.lists(st.none() | value, min_size=1, max_size=4).map(lambda v: {"in": v})
    low, high = st.sampled_from(["gt", "gte"]), st.sampled_from(["lt", "lte"])
    ends = st.dictionaries(low, value, max_size=1), st.dictionaries(high, value, max_size=1)
    bounds = st.tuples(*ends).map(lambda pair: pair[0] | pair[1])
    return st.none() | value | lists | bounds


FILTERS = st.fixed_dictionaries({}, optional={c: a_condition(c) for c in TYPES}).filter(
    lambda where: not list(problems(where))
)


def matches(row: Row, where: dict[str, Any]) -> bool:
    return all(_holds(row[column], condition) for column, condition in where.items())


def _holds(found: Any, condition: Any) -> bool:
    if not isinstance(condition, dict):
        condition = {"in": [condition]}
    if found is None:
        return None in condition.get("in", [])
    compare: dict[str, Callable[[Any, Any], bool]] = {
        "in": lambda a, values: any(v is not None and a == _as(v, a) for v in values),
        # As every SQL engine here orders them: a NaN is greater than any number.
        "gt": lambda a, v: a != a or a > _as(v, a),
        "gte": lambda a, v: a != a or a >= _as(v, a),
        "lt": lambda a, v: a < _as(v, a),
        "lte": lambda a, v: a <= _as(v, a),
    }
    return all(compare[name](found, value) for name, value in condition.items())


def _as(value: Any, other: Any) -> Any:
    """A double is compared with the nearest double."""
    return float(value) if isinstance(other, float) and isinstance(value, int) else value


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    columns = ", ".join(f'"{name}" {kind}' for name, kind in TYPES.items())
    connection.execute(f"CREATE TABLE t (id INTEGER, {columns})")
    return connection


@given(rows=ROWS, where=FILTERS)
@settings(max_examples=300, deadline=None)
def test_the_sql_finds_exactly_the_rows_that_match(
    database: duckdb.DuckDBPyConnection, rows: list[Row], where: dict[str, Any]
) -> None:
    database.execute("DELETE FROM t")
    for index, row in enumerate(rows):
        values = [index, *(row[column] for column in TYPES)]
        database.execute("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)", values)
    expected = [index for index, row in enumerate(rows) if matches(row, where)]
    # What is stored is the normal form, as JSON.
    for kept in (where, json.loads(json.dumps(normalised(where)))):
        condition, parameters = to_sql(kept)
        statement = f"SELECT id FROM t WHERE {condition} ORDER BY id"
        assert [id for (id,) in database.execute(statement, parameters).fetchall()] == expected
