"""The gate: which statements pass, which datasets they name, and why the rest are refused."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from trace_platform.domain.errors import InvalidQuery
from trace_platform.query import gate

PUBLISHED = ["blocks", "transactions", "erc20_transfers"]


@pytest.fixture(scope="module")
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        yield connection


@pytest.mark.parametrize(
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
    found = gate.check(parser, sql, PUBLISHED)
    if datasets is not None:
        assert found == datasets
    assert set(found) <= set(PUBLISHED)


def test_datasets_are_listed_once_in_the_order_of_the_text(
    parser: duckdb.DuckDBPyConnection,
) -> None:
    sql = "select * from transactions t, blocks b, transactions u"
    assert gate.check(parser, sql, PUBLISHED) == ["transactions", "blocks"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "no statement"),
        ("-- nothing", "no statement"),
        ("select 1; select 2", "2 statements"),
        ("select 1\0; select 2", "NUL"),
        ("create table t (x int)", "only SELECT"),
        ("select * from main.blocks", "without a schema"),
        ("select * from information_schema.tables", "without a schema"),
        ("select * from sqlite_master", "no published dataset"),
        ("select * from blocks at (version => 1)", "AT is not supported"),
        ("select $1", "parameter"),
        ("select ?", "parameter"),
        ("show tables", "SHOW"),
        ("select nosuchfunction(1)", "no function 'nosuchfunction'"),
        ("select 1::blocks.mood", "types are named without a schema"),
        # A WITH is visible in its own query only, and not before it.
        ("select * from (with x as (select 1) from x), x", "no published dataset 'x'"),
        ("with a as (from b), b as (select 1) from a", "no published dataset 'b'"),
        # U+212A KELVIN SIGN lower-cases to k, but DuckDB does not fold it.
        ("select * from bloc\u212as", "no published dataset"),
        ("select " + "(" * 5000 + "1" + ")" * 5000, "too deeply"),
    ],
)
def test_everything_else_is_refused_with_a_reason(
    parser: duckdb.DuckDBPyConnection, sql: str, reason: str
) -> None:
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, sql, PUBLISHED)
    assert reason in refused.value.message


def test_syntax_error_names_its_line_and_column(parser: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, "select 'é',\n  foo( from blocks", PUBLISHED)
    assert refused.value.facts["line"] == 2
    assert refused.value.facts["column"] == 8
    assert 'near "from" (line 2, column 8)' in refused.value.message


def test_unknown_dataset_suggests_the_nearest_name(parser: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, "select * from erc20_transfer", PUBLISHED)
    assert refused.value.hint == "did you mean erc20_transfers?"
    assert refused.value.facts["datasets"] == sorted(PUBLISHED)
    assert refused.value.facts["column"] == 15


def test_unknown_function_suggests_the_nearest_name(parser: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, "select array_lenght([1])", PUBLISHED)
    assert "array_length" in (refused.value.hint or "")
