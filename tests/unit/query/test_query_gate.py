"""The gate: which statements pass, which datasets they name, and why the rest are refused."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.support.corpus import corpus
from trace_platform.domain.errors import InvalidQuery
from trace_platform.sql import gate
from trace_platform.sql.functions import allowed_functions
from trace_platform.sql.relations import Reference


@pytest.fixture(scope="module")
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        yield connection


@corpus(
    ("sql", "datasets"),
    [
        ("select 1", []),
        ("select * from blocks", ["blocks"]),
        ("FROM Blocks", ["blocks"]),
        ('select * from "BLOCKS"', ["blocks"]),
        ("select 1; -- one statement and a comment", []),
        ("select * from blocks b join transactions t using (block_number)", None),
        ("select (select max(x) from blocks) from transactions", None),
        ("select * from blocks where n in (from transactions select n)", None),
        ("with a as (select * from blocks), b as (from a) select * from b", ["blocks"]),
        ("with blocks as (select * from blocks) select * from blocks", ["blocks"]),
        ("with recursive r as (select 1 n union all select n + 1 from r) from r limit 5", []),
        ("with recursive t(n) as (select n from blocks union select n from t) from t", ["blocks"]),
        ("with a as (select 1 x) select * from a union select * from a order by 1", []),
        ("with a as (select 1), b as (with c as (from a) from c) from b", []),
        ("with a as (select 1) select exists (from a) from blocks, lateral (from a)", ["blocks"]),
        ("select * from range(3) r(i), generate_series(1, 2), unnest([1, 2])", []),
        ("select unnest([1, 2]), [x + 1 for x in [1, 2] if x > 1]", []),
        ("select list_transform([1], lambda x: x + 1), address.upper() from blocks", ["blocks"]),
        ("select sum(x) over (partition by y order by z rows 3 preceding) from blocks", None),
        ("select row_number() over w from blocks window w as (order by n)", ["blocks"]),
        ("select sum(a) filter (where b), quantile_cont(a, 0.5) from blocks", ["blocks"]),
        ("select * exclude (a) replace (b + 1 as b), columns('c.*') from blocks", ["blocks"]),
        (
            "select case when a then 1 end, a::hugeint, a between 1 and 2, a is null from blocks",
            None,
        ),
        ("select {'a': 1}.a, map {'k': 1}['k'], j -> 'x', j ->> 'y' from blocks", ["blocks"]),
        ("select extract(year from ts), ts + interval 1 day, date '2024-01-01' from blocks", None),
        ("select a, count(*) from blocks group by rollup (a) having count(*) > 1", ["blocks"]),
        ("select distinct on (a) a from blocks order by a desc nulls last limit 10%", ["blocks"]),
        ("select * from blocks using sample 10%", ["blocks"]),
        ("select 1 union all select 2 except select 3", []),
        ("values (1, 'a'), (2, 'b')", []),
        ("from blocks pivot (sum(y) for x in (1, 2))", ["blocks"]),
        ("from blocks unpivot (a for b in (c, d))", ["blocks"]),
        ("select * from blocks asof join transactions using (n)", None),
        ("describe blocks", ["blocks"]),
        ("summarize select * from blocks", ["blocks"]),
        ("select to_hex(h), from_hex('ab'), md5(x), regexp_extract(x, 'a') from blocks", None),
        ("select x like 'a%', x ~ 'b', x collate nocase, x is distinct from 'c' from blocks", None),
        ("select current_date, now(), typeof(1), pg_typeof(1), coalesce(1, 2), nullif(1, 2)", []),
        ("select " + "+".join(["1"] * 200), []),
    ],
)
def test_ordinary_sql_passes(
    parser: duckdb.DuckDBPyConnection, sql: str, datasets: list[str] | None
) -> None:
    statement = gate.check(parser, sql)
    found = [reference.name for reference in statement.references]
    assert statement.sql == sql
    if datasets is not None:
        assert found == datasets
    assert set(found) <= {"blocks", "transactions"}


def test_relations_are_listed_once_in_the_order_of_the_text_with_their_place(
    parser: duckdb.DuckDBPyConnection,
) -> None:
    sql = (
        "with é as (select 'é' from transactions)\n, x as (from blocks)\n"
        "select (select 1 from Logs) from Transactions t, blocks b, transactions u"
    )
    assert gate.check(parser, sql).references == [
        Reference(view="transactions", name="transactions", line=1, column=28),
        Reference(view="blocks", name="blocks", line=2, column=14),
        Reference(view="logs", name="logs", line=3, column=23),
    ]


# In each a WITH has the name of a table: what the gate does not report must be the WITH.
SHADOWED = [
    "from secret",
    "select secret.v from secret",
    "select (select v from SECRET)",
    "select 1 where exists (from secret)",
    "select 'x' in (select v from secret)",
    "values ((select max(v) from secret))",
    "select 1 order by (select max(v) from secret)",
    "select v from secret union all (select v from secret)",
    "(select v from secret) union (with secret as (select 'own' v) from secret)",
    "select * from (with secret as (select 'own' v) from secret), secret s",
    "from secret a, lateral (select v from secret b where b.v = a.v)",
    "from secret a positional join secret b",
    "from secret a join (from secret) b using (v)",
    "from secret pivot (count(*) for v in ('TOP', 'own'))",
    "pivot secret on v in ('TOP') using max(v)",
    "unpivot secret on v into name a value b",
    "from (summarize from secret)",
    "from (describe from secret)",
    "table secret",
    "select * from unnest((select list(v) from secret))",
    "select max((select max(v) from secret)) over () from secret",
    "with secret as (from secret) from secret",
    "with a as (from secret), secret as (from a) from secret",
    "with recursive secret as (select v from secret union select v from secret) from secret",
    "with recursive secret as (from secret) from secret",
    "with recursive r as (select v from secret union select s.v from secret s, r) from r",
    "with recursive r as (select 1 n union all select n + 1 from r where n < 2 and exists"
    " (select 1 from secret where v = 'TOP')) select max(n) from r",
    "with recursive r(k, v) using key (k) as (select 1, v from secret union select k, s.v"
    " from secret s, recurring.r where k < 1) from r",
]


@corpus("shadow", ["with secret as (select 'own' as v) select * from ({})", "{}"])
@corpus("sql", SHADOWED)
def test_what_is_not_reported_is_not_read(
    parser: duckdb.DuckDBPyConnection, sql: str, shadow: str
) -> None:
    statement = gate.check(parser, shadow.format(sql))
    with duckdb.connect(":memory:", config={"max_execution_time": 5000}) as engine:
        if not statement.references:
            # Without the table, an error would say that it was looked for.
            engine.execute(statement.sql).fetchall()
        else:
            assert [reference.name for reference in statement.references] == ["secret"]
            engine.execute("create table secret as select 'TOP' as v")
            engine.execute(statement.sql).fetchall()


@corpus(
    ("sql", "reason"),
    [
        ("", "no statement"),
        ("-- nothing", "no statement"),
        ("select 1; select 2", "2 statements"),
        ("select 1\0; select 2", "NUL"),
        ("create table t (x int)", "only SELECT"),
        ("select * from main.blocks", "without a schema"),
        ("select * from information_schema.views", "without a schema"),
        ("select * from 'blocks.parquet'", "cannot be the name of a dataset"),
        ("select * from blocks at (version => 1)", "must be a string"),
        ("from blocks at (version => 'ab' || 'cd')", "must be a string"),
        ("from blocks at (timestamp => now())", "must be a string"),
        ("from blocks at (timestamp => '1'::int)", "no moment"),
        ("from blocks at (timestamp => timestamp 'soon')", "'soon' is no moment"),
        ("from blocks at (version => 'abc')", "'abc' is no generation"),
        ("from blocks at (version => 'ab-d-')", "'ab-d-' is no generation"),
        ('from "blocks@generation"', "'generation' is no generation"),
        ("with x as (select 1) from x at (version => 'abcd')", "is a WITH of the query"),
        (
            "with \"blocks@abcd\" as (select 1) from blocks at (version => 'ABCD')",
            "has the name of a generation, 'blocks@abcd'",
        ),
        ("select $1", "no parameters"),
        ("select ?", "no parameters"),
        ("select * from blocks limit $name", "no parameters"),
        ("from blocks pivot (sum(a) for b in some_type)", "PIVOT over a type"),
        ("select sum(n) export_state from blocks", "cannot be exported"),
        ("show databases", "SHOW"),
        ("select nosuchfunction(1)", "no function 'nosuchfunction'"),
        ("select 1::blocks.mood", "types are named without a schema"),
        # U+212A KELVIN SIGN lower-cases to k, but DuckDB does not fold it.
        ("select * from bloc\u212as", "cannot be the name of a dataset"),
        ("from " + ", ".join(f"t{n}" for n in range(65)), "at most 64 datasets"),
        ("select " + "(" * 5000 + "1" + ")" * 5000, "too deeply"),
    ],
)
def test_everything_else_is_refused_with_a_reason(
    parser: duckdb.DuckDBPyConnection, sql: str, reason: str
) -> None:
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, sql)
    assert reason in refused.value.message


def test_syntax_error_names_its_line_and_column(parser: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, "select 'é',\n  foo( from blocks")
    assert refused.value.facts == {"line": 2, "column": 8, "position": 20}
    assert 'near "from" (line 2, column 8)' in refused.value.message


def test_a_refused_part_has_its_place(parser: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, "select 1,\n getenv('é')")
    assert refused.value.facts == {"line": 2, "column": 2}


def test_unknown_function_suggests_the_nearest_name(parser: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, "select array_lenght([1])")
    assert "array_length" in (refused.value.hint or "")
    assert "array_length" in str(refused.value.facts["suggestions"])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT \">\"(1::VARIANT, 'a')",
        "SELECT \"=\"(1::VARIANT, 'a')",
        "SELECT \"is distinct from\"(1::VARIANT, 'a')",
        "SELECT (1::VARIANT).\">=\"('a')",
        "SELECT __between(1, 2, 3)",
    ],
)
def test_operators_are_not_called_as_functions(sql: str) -> None:
    """Unchecked, they take one type for another, and end the process."""
    with pytest.raises(InvalidQuery, match="not allowed"), duckdb.connect() as connection:
        gate.check(connection, sql)


def test_a_new_function_of_duckdb_is_looked_at_first() -> None:
    """When this fails, read what has come and deny what reaches outside a query."""
    assert (duckdb.__version__, len(allowed_functions())) == ("2.0.0", 930)


VERSION = "4f2a61c0-0000-4000-8000-00000000000a"
MOMENT = "2026-01-31T12:00:00+00:00"


@corpus(
    ("sql", "runs", "pin"),
    [
        ("from blocks@4f2a", 'from "blocks@4f2a" AS "blocks"', {"version": "4f2a"}),
        (
            f"from Blocks@{VERSION.upper()} b",
            f'from "Blocks@{VERSION.upper()}" b',
            {"version": VERSION},
        ),
        ("from blocks@1e10 as b", 'from "blocks@1e10" as b', {"version": "1e10"}),
        ("from blocks@4f2a--x\n", 'from "blocks@4f2a" AS "blocks"--x\n', {"version": "4f2a"}),
        ('from "blocks@4F2A"', 'from "blocks@4F2A" AS "blocks"', {"version": "4f2a"}),
        ('from b: "blocks@4f2a"', 'from b: "blocks@4f2a"', {"version": "4f2a"}),
        ("describe blocks@4f2a", 'describe "blocks@4f2a"', {"version": "4f2a"}),
        (
            "from blocks at (version => '4F2A')",
            'from "blocks@4f2a" AS "blocks" ',
            {"version": "4f2a"},
        ),
        (
            "from blocks b at (version\n=> ('4f2a')) where b.n > 1",
            'from "blocks@4f2a" b \n where b.n > 1',
            {"version": "4f2a"},
        ),
        (
            "from blocks as b(x) at /*)*/ (version => $$4f2a$$) tablesample 10%",
            'from "blocks@4f2a" as b(x)  tablesample 10%',
            {"version": "4f2a"},
        ),
        (
            "from blocks at (timestamp => timestamp '2026-01-31 12:00:00')",
            f'from "blocks@at {MOMENT}" AS "blocks" ',
            {"at": MOMENT},
        ),
        (
            "from blocks at (timestamp => '2026-01-31T14:00:00+02:00')",
            f'from "blocks@at {MOMENT}" AS "blocks" ',
            {"at": MOMENT},
        ),
        (
            "from blocks at (timestamp => '2026-01-31 12:00Z'::timestamptz)",
            f'from "blocks@at {MOMENT}" AS "blocks" ',
            {"at": MOMENT},
        ),
        # The id of a deploy is the moment when it took over.
        (
            f"from blocks at (timestamp => '{VERSION}')",
            f'from "blocks@at {VERSION}" AS "blocks" ',
            {"at": VERSION},
        ),
    ],
)
def test_a_pin_is_read_and_becomes_the_name_of_a_view(
    parser: duckdb.DuckDBPyConnection, sql: str, runs: str, pin: dict[str, str]
) -> None:
    statement = gate.check(parser, sql)
    assert statement.sql == runs
    [found] = statement.references
    assert (found.name, found.version, found.at) == ("blocks", pin.get("version"), pin.get("at"))
    assert f'"{found.view}"' in runs.lower().replace(MOMENT.lower(), MOMENT)


@corpus(
    "sql",
    [
        "select 'blocks@4f2a' from blocks",
        "select $$ blocks@4f2a $$ from blocks",
        "select 1 /* blocks@4f2a */ from blocks -- blocks@4f2a",
        'select "column@4f2a" from blocks',
        "select a@>abcd, a <@abcd, @abcd, a @ abcd, n from blocks",
        "select@abcd from blocks where n in(1)and@abcd > 1",
        "select a@b, a@12 from blocks",
        'with "x@4f2a" as (select 1) from "x@4f2a", blocks',
    ],
)
def test_what_only_looks_like_a_pin_stays(parser: duckdb.DuckDBPyConnection, sql: str) -> None:
    statement = gate.check(parser, sql)
    assert statement.sql == sql
    assert [reference.view for reference in statement.references] == ["blocks"]


def test_a_dataset_is_read_at_several_pins(parser: duckdb.DuckDBPyConnection) -> None:
    sql = (
        "from blocks, blocks@4f2a a, blocks b at (version => '4F2A'),"
        " blocks c at (version => '51bb'), blocks d at (timestamp => '2026-01-31')"
    )
    assert [each.view for each in gate.check(parser, sql).references] == [
        "blocks",
        "blocks@4f2a",
        "blocks@51bb",
        "blocks@at 2026-01-31T00:00:00+00:00",
    ]


def test_places_are_those_of_the_callers_text(parser: duckdb.DuckDBPyConnection) -> None:
    sql = "select 'é' from blocks@4f2a, blocks@51bb x,\n  transactions@4f2a, \n nosuch('a')"
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, sql)
    assert refused.value.facts == {"line": 3, "column": 2}
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, "from a@4f2a, b@4f2a where where")
    assert refused.value.facts == {"line": 1, "column": 27, "position": 26}


def test_a_byte_of_what_runs_has_its_place_in_the_callers_text(
    parser: duckdb.DuckDBPyConnection,
) -> None:
    sql = (
        "select é.x from blocks@4f2a, logs@51bb,\n"
        " t at (version\n => 'abcd') join u@4f2a on nosuch = 1"
    )
    statement = gate.check(parser, sql)
    for word in ("logs", "on nosuch", "nosuch", "= 1"):
        at = len(statement.sql[: statement.sql.index(word)].encode())
        before = sql[: sql.index(word)]
        line, column = statement.place(at)
        assert line == before.count("\n") + 1
        assert column == len(before) - before.rfind("\n")


def test_a_short_pin_says_what_would_be_right(parser: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, "from blocks@4f")
    assert "4 to 36 hex digits" in (refused.value.hint or "")
