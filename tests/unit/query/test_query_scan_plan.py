"""What is asked of a table is enough: the statement's answer stays the same without the rest."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.corpus import corpus
from trace_platform.domain.errors import InvalidQuery
from trace_platform.query.child.engine import lock, open_database
from trace_platform.query.child.explain import Explained
from trace_platform.query.child.scan_plan import DISABLED_OPTIMIZERS, plan
from trace_platform.query.protocol.messages import Filter, Limits, Relation, Scan
from trace_platform.sql import gate
from trace_platform.sql.relations import Column

TYPES = {
    "block_number": ("UINTEGER", "BIGINT"),
    "u": ("UBIGINT", "BIGINT"),
    "i": ("BIGINT", "BIGINT"),
    "d": ("DOUBLE", "DOUBLE"),
    "s": ("VARCHAR", "VARCHAR"),
    "h": ("BLOB", "BLOB"),
    "ok": ("BOOLEAN", "BOOLEAN"),
    # In Postgres as numeric: text, until it is cast.
    "n": ("DECIMAL(38,0)", "VARCHAR"),
    "secret": ("VARCHAR", "VARCHAR"),
}
COLUMNS = [Column(name, kind) for name, (kind, _) in TYPES.items()]
HOT = [Column(name, kind) for name, (_, kind) in TYPES.items()]
T = Relation(view="t", columns=COLUMNS, hot_columns=HOT, seam=0, masked=["secret"])
FILES = Relation(view="f", columns=[Column("k", "UBIGINT"), Column("l", "INTEGER[]")])


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = open_database(Limits(), str(tmp_path_factory.mktemp("planner")))
    connection.execute(f"SET disabled_optimizers = '{','.join(DISABLED_OPTIMIZERS)}'")
    lock(connection, [])
    yield connection
    connection.close()


def scan_of(
    planner: duckdb.DuckDBPyConnection, sql: str, relations: list[Relation] | None = None
) -> Scan:
    relations = [T, FILES] if relations is None else relations
    explained = Explained(relations, Limits(), 60.0, "/scratch")
    return plan(planner, gate.check(planner, sql), relations, explained)["t"]


@corpus(
    ("sql", "columns", "filters"),
    [
        ("SELECT s FROM t", ["s"], []),
        ("SELECT * FROM t;", [name for name in TYPES if name != "secret"], []),
        ("SELECT count(*) FROM t", ["block_number"], []),
        ("SELECT max(u) FROM t", ["u"], []),
        ("SELECT s FROM t WHERE u > 5 -- why", ["u", "s"], [("u", ">", [5])]),
        ("SELECT s FROM t WHERE u IN (1, 5, 9)", ["u", "s"], [("u", "in", [1, 5, 9])]),
        ("SELECT s FROM t WHERE s IN ('a', 'é''')", ["s"], [("s", "in", ["a", "é'"])]),
        ("SELECT u FROM t WHERE h = '\\xAB\\x00a'::BLOB", ["u", "h"], [("h", "=", ["0xab0061"])]),
        ("SELECT u FROM t WHERE h = from_hex('5C27')", ["u", "h"], [("h", "=", ["0x5c27"])]),
        (
            "SELECT u FROM t WHERE h = from_hex('ab') OR h = 'x'::BLOB",
            ["u", "h"],
            [("h", "in", ["0xab", "0x78"])],
        ),
        ("SELECT u FROM t WHERE d >= 0.1", ["u", "d"], [("d", ">=", [0.1])]),
        ("SELECT u FROM t WHERE d < 'Infinity'", ["u", "d"], []),
        ("SELECT u FROM t WHERE ok = true", ["u", "ok"], [("ok", "=", [True])]),
        ("SELECT u FROM t WHERE n = 5", ["u", "n"], []),
        ("SELECT u FROM t WHERE u = 1 OR s = 'a'", ["u", "s"], []),
        ("SELECT u FROM t WHERE NOT u = 3", ["u"], []),
        ("SELECT u FROM t WHERE i IS NULL", ["u", "i"], []),
        ("SELECT u FROM t WHERE i > -9 ORDER BY i LIMIT 3", ["u", "i"], [("i", ">", [-9])]),
        ("SELECT u FROM (SELECT * FROM t LIMIT 5) WHERE u > 3", ["u"], []),
        ("SELECT secret FROM t", ["block_number"], []),
        ("SELECT u FROM t WHERE secret = '***' AND u < 4", ["u"], [("u", "<", [4])]),
        (
            "WITH x AS (SELECT u, s FROM t WHERE u < 7) SELECT a.s FROM x a JOIN x b USING (u)",
            ["u", "s"],
            [("u", "<", [7])],
        ),
        ("SELECT a.s FROM t a, t b WHERE a.u > 5 AND b.i < 3", ["u", "i", "s"], []),
        (
            "SELECT a.s FROM t a, t b WHERE a.u > 5 AND b.u > 5 AND b.i = 2",
            ["u", "i", "s"],
            [("u", ">", [5])],
        ),
        (
            "SELECT u FROM t WHERE block_number = (SELECT max(block_number) FROM t WHERE u < 9)",
            ["block_number", "u"],
            [],
        ),
        ("SELECT s FROM t WHERE EXISTS (SELECT 1 FROM f WHERE k = t.u)", ["u", "s"], []),
        ("SELECT k FROM f LEFT JOIN t ON k = u AND u > 3", ["u"], [("u", ">", [3])]),
        ("SELECT k FROM f LEFT JOIN t ON k = u WHERE u IS NULL", ["u"], []),
        ("SELECT s FROM t LEFT JOIN f ON k = u AND k > 3", ["u", "s"], []),
        ("SELECT u FROM t UNION ALL SELECT u FROM t WHERE u = 4", ["u"], []),
        (
            "SELECT s, sum(u) FROM t WHERE i = 4 GROUP BY s HAVING sum(u) > 4",
            ["u", "i", "s"],
            [("i", "=", [4])],
        ),
    ],
)
def test_only_what_is_needed_is_asked_for(
    planner: duckdb.DuckDBPyConnection, sql: str, columns: list[str], filters: list[Any]
) -> None:
    scan = scan_of(planner, sql)
    assert scan.columns == columns
    assert [(each.column, each.comparison, each.values) for each in scan.filters] == filters


def test_the_grants_own_filter_is_asked_for(planner: duckdb.DuckDBPyConnection) -> None:
    where = {"s": "critical", "u": {"gte": 3, "lt": 9}, "secret": "x"}
    relation = Relation(
        view="t", columns=COLUMNS, hot_columns=HOT, seam=0, masked=["secret"], where=where
    )
    scan = scan_of(planner, "SELECT i FROM t", [relation])
    assert scan.columns == ["u", "i", "s", "secret"]
    told = {(each.column, each.comparison, *each.values) for each in scan.filters}
    assert told == {("s", "=", "critical"), ("u", ">=", 3), ("u", "<", 9)}


def test_no_filter_on_a_column_that_may_be_the_misspelt_one_reaches_postgres(
    planner: duckdb.DuckDBPyConnection,
) -> None:
    relation = Relation(
        view="t",
        columns=COLUMNS,
        hot_columns=HOT,
        seam=0,
        masked=["secrte"],
        not_personal=["u"],
        where={"s": "critical", "u": 3},
    )
    scan = scan_of(planner, "SELECT i FROM t", [relation])
    assert [(each.column, each.values) for each in scan.filters] == [("u", [3])]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT u FROM t WHERE false",
        "SELECT u FROM t WHERE secret = 'x'",
        "SELECT u FROM t WHERE d = 'NaN'",
        "SUMMARIZE t",
    ],
)
def test_what_cannot_be_planned_is_asked_for_as_a_whole(
    planner: duckdb.DuckDBPyConnection, sql: str
) -> None:
    assert scan_of(planner, sql) == Scan()


def test_a_relation_of_unknown_columns_leaves_all_tables_whole(
    planner: duckdb.DuckDBPyConnection,
) -> None:
    unknown = Relation(view="f", files=["/somewhere.parquet"])
    sql = "SELECT u FROM t WHERE u > 5"
    assert scan_of(planner, sql, [T]).columns == ["u"]
    assert scan_of(planner, sql, [T, unknown]) == Scan()


def test_columns_that_postgres_does_not_have_are_not_asked_of_it(
    planner: duckdb.DuckDBPyConnection,
) -> None:
    relation = Relation(view="t", columns=COLUMNS, hot_columns=HOT[:2], seam=0)
    scan = scan_of(planner, "SELECT s FROM t WHERE i = 4 AND u = 3", [relation])
    assert scan == Scan(columns=["u"], filters=[Filter("u", "=", [3])])


def test_an_unknown_column_is_told_before_any_row_is_read(
    planner: duckdb.DuckDBPyConnection,
) -> None:
    with pytest.raises(InvalidQuery, match='Referenced column "blok_number" not found') as caught:
        scan_of(planner, "SELECT u,\n  blok_number FROM t")
    assert caught.value.facts == {"suggestions": ["block_number"], "line": 2, "column": 3}


@corpus(
    "condition",
    [
        "block_number >= 4294967295",
        "i <= -9223372036854775807",
        "d > 1e307",
        "d < -1e307",
        "s > 'zzzz'",
        "s <= ''",
        "h > '\\xFE\\xFF'::BLOB",
        "ok",
        "NOT ok",
        "n > 5",
        "n IS NULL",
        "i IS NULL",
        "s IS NOT NULL",
    ],
)
def test_what_the_stubs_hold_rules_nothing_out(
    planner: duckdb.DuckDBPyConnection, condition: str
) -> None:
    """Else one of two scans would be gone, and what the other asks for would not be enough."""
    sql = f"SELECT u FROM t WHERE {condition} UNION ALL SELECT u FROM t WHERE u = 3"
    scan = scan_of(planner, sql)
    assert scan.columns is not None
    assert scan.filters == []


def test_planning_leaves_nothing_behind(planner: duckdb.DuckDBPyConnection) -> None:
    for _ in range(2):
        scan_of(planner, "SELECT u FROM t")
    assert planner.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)


# The answer over what is asked for is the answer over everything.

# Also longer than any value of a stand-in.
TEXT = st.sampled_from(["", "a", "b", "é", "'", "\\", "\U0010ffff", "ab", "x" * 300])
BLOBS = st.sampled_from([b"", b"\x00", b"a", b"'\\", b"\xff", b"\xff\xff", b"\xab\xcd", b"z" * 100])
SMALL = st.integers(0, 6)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "block_number": SMALL | st.just(2**32 - 1),
    "u": SMALL | st.just(2**63 - 1),
    "i": st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    "d": st.sampled_from([0.0, -0.0, 0.1, 1.5, -2.0, 1e300, math.inf, -math.inf, math.nan]),
    "s": TEXT,
    "h": BLOBS,
    "ok": st.booleans(),
    "n": st.integers(-3, 3),
    "secret": TEXT,
}
ROWS = st.lists(st.tuples(*(st.none() | each for each in VALUES.values())), max_size=8)


def literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"from_hex('{value.hex()}')"
        case float():
            return f"'{value!r}'::DOUBLE"
    return str(value)


@st.composite
def predicates(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(
        st.sampled_from(["compare", "compare", "in", "null", "and", "or", "not", "between", "long"])
    )
    if depth and kind in ("and", "or"):
        inner = [draw(predicates(depth=depth - 1)) for _ in range(2)]
        return f"({f' {kind} '.join(inner)})"
    if depth and kind == "not":
        return f"NOT ({draw(predicates(depth=depth - 1))})"
    if kind == "long":
        name, function = draw(st.sampled_from([("h", "octet_length"), ("s", "strlen")]))
        return f"{function}(a.{name}) > {draw(st.sampled_from([1, 64, 256]))}"
    name = draw(st.sampled_from(sorted(VALUES)))
    values = [literal(draw(VALUES[name])) for _ in range(3)]
    if kind == "null":
        return f"a.{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if kind == "in":
        return f"a.{name} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(values)})"
    if kind == "between":
        return f"a.{name} BETWEEN {values[0]} AND {values[1]}"
    symbol = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"]))
    return f"a.{name} {symbol} {values[0]}"


FORMS = [
    "SELECT a.u, a.s FROM t a WHERE {p}",
    "SELECT count(*) FROM t a WHERE {p}",
    "SELECT * FROM t a WHERE {p} AND {q}",
    "SELECT a.s, sum(a.i::DOUBLE), count(a.h) FROM t a WHERE {p} GROUP BY a.s",
    "SELECT a.u FROM t a WHERE {p} ORDER BY ALL LIMIT 3",
    "SELECT a.u, b.s FROM (SELECT * FROM t a WHERE {p}) a JOIN t b ON a.u = b.u",
    "SELECT a.u, b.s FROM t b LEFT JOIN t a ON a.u = b.u AND {p}",
    "SELECT a.u, b.s FROM t a LEFT JOIN t b ON a.u = b.i AND b.block_number > 2 WHERE {p}",
    "SELECT a.u, b.s FROM t a FULL JOIN t b ON a.i = b.i AND {p} WHERE b.u > 1 OR b.u IS NULL",
    "SELECT b.u FROM t b WHERE EXISTS (SELECT 1 FROM t a WHERE a.i = b.i AND {p})",
    "SELECT b.u FROM t b WHERE b.i NOT IN (SELECT a.i FROM t a WHERE {p})",
    "SELECT a.u FROM t a WHERE a.u = (SELECT max(b.u) FROM t b WHERE b.i = a.i) AND {p}",
    "WITH x AS (SELECT * FROM t a WHERE {p}) SELECT a.u FROM x a WHERE {q} UNION ALL"
    " SELECT i FROM x",
    "SELECT a.u, row_number() OVER (PARTITION BY a.s ORDER BY a.u, a.i, a.block_number) FROM t a"
    " WHERE a.i > 0 QUALIFY {p}",
    "SELECT a.u, (SELECT count(*) FROM t b WHERE b.u < a.u) FROM t a WHERE {p}",
    "SELECT a.u FROM t a JOIN f ON f.k = a.u WHERE {p}",
    "SELECT (SELECT count(*) FROM t a WHERE {p}), (SELECT count(*) FROM t a WHERE a.u = 3)",
    "SELECT a.u FROM t a WHERE a.u > 2 AND a.u NOT IN (SELECT a.u FROM t a WHERE {p})",
    "SELECT DISTINCT a.secret, a.ok FROM t a WHERE {p} EXCEPT SELECT 'x', b.ok FROM t b"
    " WHERE b.u = 3",
]


def fulfils(row: dict[str, Any], condition: Filter) -> bool:
    found = row[condition.column]
    if found is None:
        return False
    order = [_ordered(value) for value in condition.values]
    mine = _ordered(found)
    match condition.comparison:
        case "=" | "in":
            return mine in order
        case ">":
            return mine > order[0]
        case ">=":
            return mine >= order[0]
        case "<":
            return mine < order[0]
    return mine <= order[0]


def _ordered(value: Any) -> Any:
    match value:
        case str() if value.startswith("0x"):
            return bytes.fromhex(value[2:])
        case str():
            return value.encode()
        case float():
            return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    typed = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    connection.execute(f"CREATE TABLE rows ({typed})")
    shown = ", ".join(name for name in TYPES if name != "secret")
    connection.execute(f"CREATE VIEW t AS SELECT {shown}, '***' AS secret FROM rows")
    connection.execute("CREATE TABLE f AS SELECT i::UBIGINT AS k, [1] AS l FROM range(4) r(i)")
    return connection


def answer(database: duckdb.DuckDBPyConnection, sql: str, rows: list[dict[str, Any]]) -> list[str]:
    database.execute("DELETE FROM rows")
    holes = ", ".join("?" * len(TYPES))
    if rows:
        everything = ", ".join([f"({holes})"] * len(rows))
        values = [value for row in rows for value in row.values()]
        database.execute(f"INSERT INTO rows VALUES {everything}", values)
    return sorted(map(repr, database.execute(sql).fetchall()))


@corpus(
    "condition",
    [
        "octet_length(h) > 64",
        "length(s) > 64",
        "strlen(s) > 256",
        "s LIKE '%" + "x" * 300 + "%'",
        "contains(s, '" + "x" * 300 + "')",
        "bit_length(s) > 9000",
    ],
    ids=["octets", "letters", "bytes", "like", "contains", "bits"],
)
def test_values_may_be_longer_than_those_of_a_stand_in(
    planner: duckdb.DuckDBPyConnection, condition: str
) -> None:
    scan = scan_of(
        planner,
        f"SELECT (SELECT count(*) FROM t WHERE {condition}), (SELECT count(*) FROM t WHERE u = 3)",
    )
    assert scan.filters == []
    assert {"u", "h" if "(h)" in condition else "s"} <= set(scan.columns or TYPES)


@given(rows=ROWS, form=st.sampled_from(FORMS), p=predicates(), q=predicates())
@settings(max_examples=400)
def test_the_rest_of_the_rows_does_not_matter(
    planner: duckdb.DuckDBPyConnection,
    database: duckdb.DuckDBPyConnection,
    rows: list[tuple[Any, ...]],
    form: str,
    p: str,
    q: str,
) -> None:
    sql = form.format(p=p, q=q)
    scan = scan_of(planner, sql)
    columns = TYPES if scan.columns is None else scan.columns
    assert columns
    assert "secret" not in {each.column for each in scan.filters}
    given = [dict(zip(TYPES, row, strict=True)) for row in rows]
    brought = [
        {name: value if name in columns else None for name, value in row.items()}
        for row in given
        if all(fulfils(row, each) for each in scan.filters)
    ]
    assert answer(database, sql, brought) == answer(database, sql, given)


@given(value=st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=100)
def test_no_digit_of_a_number_is_lost(planner: duckdb.DuckDBPyConnection, value: float) -> None:
    scan = scan_of(planner, f"SELECT u FROM t WHERE d <= '{value!r}'::DOUBLE")
    assert scan.filters == [Filter("d", "<=", [value])]
    assert json.loads(json.dumps(scan.filters[0].values)) == [value]
