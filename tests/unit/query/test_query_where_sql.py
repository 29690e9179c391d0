"""A filter as SQL of a view finds the rows that the filter's words mean, to the last digit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.corpus import corpus
from trace_platform.domain.errors import InvalidConfig
from trace_platform.query.protocol.where_sql import to_condition
from trace_platform.wire.where import normalised, problems

Row = dict[str, Any]

TYPES = {
    "n": "BIGINT",
    "small": "UTINYINT",
    "u": "UBIGINT",
    "h": "HUGEINT",
    "amount": "DECIMAL(38,0)",
    "price": "DECIMAL(6,2)",
    "x": "DOUBLE",
    "s": "VARCHAR",
    "b": "BOOLEAN",
    "a": "BLOB",
    "day": "DATE",
}
TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=3)
BYTES = st.sampled_from([b"", b"\x00", b"'", b"\\", b"\xab\xcd", b"\xff"])
DAYS = st.sampled_from(["2000-01-01", "2024-02-29", "1969-12-31"])
CENTS = st.integers(-200, 200).map(lambda cents: Decimal(cents) / 100)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "small": st.integers(0, 3) | st.just(255),
    "u": st.integers(0, 3) | st.sampled_from([2**63, 2**64 - 1]),
    "h": st.integers(-3, 3) | st.sampled_from([2**100, 2**127 - 1, -(2**127)]),
    "amount": st.integers(-3, 3) | st.sampled_from([2**100, 2**100 + 1, 10**38 - 1]),
    "price": CENTS,
    "x": st.integers(-3, 3).map(float) | st.floats(-4, 4) | st.sampled_from([math.nan, 1e40]),
    "s": st.sampled_from(["a", "b", "it's", '"', "'", "\\", "", "é", "\uffff", "\U00010000"])
    | TEXT,
    "b": st.booleans(),
    "a": BYTES,
    "day": DAYS,
}
NUMBERS = (
    st.integers(-3, 3)
    | st.floats(-4, 4)
    | st.sampled_from([255, 256, 2**63, 2**64, -(2**100), 2**100 + 1, 2**127, 10**38, 2**256, 0.5])
)
SOUGHT: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("small", "u", "h", "x"), NUMBERS),
    "n": NUMBERS | VALUES["n"],
    # Of a decimal and a double both are doubles: such that are exact there.
    "amount": st.integers(-3, 3) | st.sampled_from([0.5, 2**100, 2**100 + 1, 10**38, -(2**256)]),
    "price": st.integers(-3, 3) | st.sampled_from([0.5, 0.25, 10_000, -(10**40)]),
    "s": VALUES["s"],
    "b": VALUES["b"],
    "a": BYTES.map(lambda value: "0x" + value.hex()),
    "day": DAYS,
}
ROWS = st.lists(st.fixed_dictionaries({c: st.none() | v for c, v in VALUES.items()}), max_size=6)


def a_condition(column: str) -> st.SearchStrategy[Any]:
    value = SOUGHT[column]
    lists = st.lists(st.none() | value, min_size=1, max_size=4).map(lambda v: {"in": v})
    low, high = st.sampled_from(["gt", "gte"]), st.sampled_from(["lt", "lte"])
    ends = st.dictionaries(low, value, max_size=1), st.dictionaries(high, value, max_size=1)
    bounds = st.tuples(*ends).map(lambda pair: pair[0] | pair[1])
    return st.none() | value | lists | bounds


FILTERS = (
    st.sets(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3)
    .flatmap(lambda names: st.fixed_dictionaries({c: a_condition(c) for c in sorted(names)}))
    .filter(lambda where: not list(problems(where)))
)


def matches(row: Row, where: dict[str, Any]) -> bool:
    return all(_holds(column, row[column], condition) for column, condition in where.items())


def _holds(column: str, found: Any, condition: Any) -> bool:
    if not isinstance(condition, dict):
        condition = {"in": [condition]}
    if found is None:
        return None in condition.get("in", [])
    mine = found.encode() if isinstance(found, str) else found

    def other(value: Any) -> Any:
        if column == "a":
            return bytes.fromhex(value[2:])
        if isinstance(value, str):
            return value.encode()
        return float(value) if column == "x" else value

    compare: dict[str, Callable[[Any], bool]] = {
        "in": lambda values: any(v is not None and mine == other(v) for v in values),
        # As every SQL engine here orders them: a NaN is greater than any number.
        "gt": lambda v: mine != mine or mine > other(v),
        "gte": lambda v: mine != mine or mine >= other(v),
        "lt": lambda v: mine < other(v),
        "lte": lambda v: mine <= other(v),
    }
    return all(compare[name](value) for name, value in condition.items())


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    columns = ", ".join(f'"{name}" {kind}' for name, kind in TYPES.items())
    connection.execute(f"CREATE TABLE t (id INTEGER, {columns})")
    return connection


@given(rows=ROWS, where=FILTERS)
@settings(max_examples=300)
def test_the_condition_finds_exactly_the_rows_that_match(
    database: duckdb.DuckDBPyConnection, rows: list[Row], where: dict[str, Any]
) -> None:
    database.execute("DELETE FROM t")
    holes = ", ".join("?" * (len(TYPES) + 1))
    if rows:
        values = [[index, *(row[c] for c in TYPES)] for index, row in enumerate(rows)]
        everything = ", ".join([f"({holes})"] * len(rows))
        database.execute(f"INSERT INTO t VALUES {everything}", [v for row in values for v in row])
    expected = [index for index, row in enumerate(rows) if matches(row, where)]
    # What is stored is the normal form, as JSON.
    for kept in (where, json.loads(json.dumps(normalised(where)))):
        condition = to_condition(kept, TYPES, "r")
        # A view's text has no parameters.
        database.execute(f"CREATE OR REPLACE VIEW v AS SELECT id FROM t AS r WHERE {condition}")
        found = database.execute("SELECT id FROM v ORDER BY id").fetchall()
        assert [id for (id,) in found] == expected


def test_a_nan_is_greater_than_any_number_in_a_file_too(tmp_path: Path) -> None:
    """Its statistics leave NaN out."""
    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"x": [1.0, math.nan, 2.0, -0.0]}), path, row_group_size=2)
    for where, count in [({"x": {"gt": 5}}, 1), ({"x": {"gte": 2}}, 2), ({"x": 0}, 1)]:
        condition = to_condition(where, {"x": "DOUBLE"}, "r")
        sql = f"SELECT count(*) FROM read_parquet('{path}') AS r WHERE {condition}"
        assert duckdb.sql(sql).fetchall() == [(count,)]


@corpus(
    ("where", "said"),
    [
        ({"amuont": 1}, "where.amuont: the input has no such column; did you mean amount?"),
        ({"zzz": 1}, "where.zzz: the input has no such column; it has n, small, u"),
        ({"s": 1}, "where.s: the column is VARCHAR, and 1 is not; compare it with values"),
        ({"n": "1"}, "where.n: the column is BIGINT, and '1' is not"),
        ({"b": 1}, "where.b: the column is BOOLEAN, and 1 is not"),
        ({"amount": True}, "where.amount: the column is DECIMAL(38,0), and True is not"),
        ({"a": "ab"}, "where.a: the column holds bytes, and 'ab' is not hex; write"),
        ({"1; --": 1}, "where.1; --: a column is letters, digits and '_'"),
    ],
    ids=repr,
)
def test_a_filter_that_does_not_fit_the_columns_is_refused(where: Row, said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        to_condition(where, TYPES, "r")
    assert f"{caught.value.message}; {caught.value.hint}".startswith(said)


def test_columns_are_found_in_any_case() -> None:
    assert to_condition({"NUMBER": 7}, {"number": "BIGINT"}, "r") == (
        "(r.\"number\" IN (CAST('7' AS BIGINT)))"
    )
