"""Honest analytical SQL of many shapes: it passes, it runs, and pinned it means the same.

`{blocks}` and `{blocks b}` stand for the dataset, without and with an alias.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import duckdb
import pytest

from tests.support.corpus import corpus
from trace_platform.sql import gate

PIN = "4f2a61c0"
MOMENT = "2026-01-31T12:00:00+00:00"

HONEST = [
    "select * from {blocks} order by number",
    "from {blocks} order by all",
    "select count(*), min(number), max(number) from {blocks}",
    "select blocks.number, blocks.miner from {blocks} where blocks.number > 2 order by 1",
    "select b.number from {blocks b} where b.gas between 100 and 300 order by b.number",
    "select miner, count(*) c, sum(gas) from {blocks} group by miner having c > 1 order by all",
    "select miner, count(*) from {blocks} group by all order by all desc",
    "select miner, day(ts), count(*) from {blocks} group by rollup (miner, day(ts)) order by all",
    "select miner, sum(gas) from {blocks} group by grouping sets ((miner), ()) order by all",
    "select grouping(miner), sum(gas) from {blocks} group by cube (miner) order by all",
    "with busy as (select * from {blocks} where gas > 150) select count(*) from busy",
    "with a as materialized (from {blocks}), b as (from a where number < 4) select sum(gas) from b",
    "with recursive r(n) as (select min(number) from {blocks} union all select n + 1 from r"
    " where n < 5) select sum(n) from r",
    "with recursive t(k, v) using key (k) as (select number, 1 from {blocks} union"
    " select k, v + 1 from t where v < 3) select k, v from t order by all",
    "with blocks as (from {blocks}) select count(*) from blocks",
    "select number, sum(gas) over (order by number rows between 1 preceding and current row)"
    " from {blocks} order by 1",
    "select number, lag(gas) over w, rank() over w from {blocks} window w as (order by gas)"
    " order by 1",
    "select number, avg(gas) over (order by ts range between interval 1 day preceding and"
    " current row exclude ties) from {blocks} order by 1",
    "select miner, number from {blocks} qualify row_number() over (partition by miner"
    " order by number desc) = 1 order by all",
    "select first_value(gas ignore nulls) over (order by number) from {blocks}",
    "select t.hash, b.miner from transactions t join {blocks b} on t.number = b.number order by 1",
    "select * from transactions join {blocks} using (number) order by hash",
    "select * from transactions natural join {blocks} order by hash",
    "select b.number, t.hash from {blocks b} left join transactions t using (number) order by all",
    "select number from {blocks} semi join transactions using (number) order by 1",
    "select number from {blocks} anti join transactions using (number) order by 1",
    "select t.hash, b.number from transactions t asof join {blocks b} on t.seen >= b.ts order by 1",
    "select * from (from {blocks} order by number limit 2) positional join (from range(2))",
    "select b.number, x.c from {blocks b}, lateral (select count(*) c from transactions t"
    " where t.number = b.number) x order by 1",
    "select b.number, u.tag from {blocks b}, unnest(b.tags) u(tag) order by all",
    "select number, unnest(tags) tag from {blocks} order by all",
    "select tag, nth from {blocks}, unnest(tags) with ordinality as u(tag, nth) order by all",
    "select list_transform(tags, lambda x: upper(x)), list_filter(tags, lambda x: x > 'a')"
    " from {blocks} order by number",
    "select [t || '!' for t in tags if t <> 'a'], len(tags), tags[1], tags[-1], tags[1:2]"
    " from {blocks} order by number",
    "select list(miner order by number desc), string_agg(miner, ',' order by number),"
    " array_agg(distinct miner order by miner) from {blocks}",
    "select info.size, info['size'], blocks.info.size + 1, struct_pack(a := gas) from {blocks}"
    " order by number",
    "select {'a': number, 'b': [gas]} s, map {'k': gas}['k'] m from {blocks} order by number",
    "select body -> 'x' ->> 'y', json_extract(body, '$.x.y')::int, json_array_length(body, '$.z'),"
    " json_valid(body::varchar) from {blocks} order by number",
    "select e.key, e.value from {blocks b}, json_each(b.body) e order by all",
    "select number from {blocks} union select number from transactions order by 1",
    "select number from {blocks} except all select 1 intersect select 1 order by 1",
    "select count(*) from (from {blocks} union all by name select 9 as number)",
    "from {blocks} pivot (sum(gas) for miner in ('0xa', '0xb') group by number) order by number",
    "pivot {blocks} on miner in ('0xa', '0xb') using sum(gas) group by number order by all",
    "unpivot (select number, gas from {blocks}) on gas into name k value v order by all",
    "from {blocks} unpivot (v for k in (number, gas)) select k, v order by all",
    "select date_trunc('day', ts), extract(hour from ts), ts + interval 1 day, ts::date,"
    " date_diff('hour', ts, timestamp '2026-02-01'), strftime(ts, '%Y-%m') from {blocks}"
    " order by number",
    "select time_bucket(interval '1 day', ts) t, count(*) from {blocks} group by t order by t",
    "select ts at time zone 'UTC', ts::timestamptz from {blocks} order by number",
    "select try_cast(miner as int), cast(gas as decimal(38, 2)), gas::varchar, gas::hugeint"
    " from {blocks} order by number",
    "select regexp_extract(miner, '0x(.)', 1), regexp_matches(miner, 'a$'),"
    " miner similar to '0x.', miner ilike '0X_', miner not like '%z' from {blocks} order by number",
    "select case when gas > 200 then 'big' when gas > 100 then 'mid' else 'small' end k, count(*)"
    " from {blocks} group by k order by k",
    "select coalesce(nullif(gas, 100), -1), greatest(gas, 150), gas is distinct from 100,"
    " gas in (100, 200), not (gas > 1) from {blocks} order by number",
    "select count(*) filter (where gas > 100), count(distinct miner), sum(distinct gas),"
    " quantile_cont(gas, 0.5), approx_count_distinct(miner), arg_max(miner, gas) from {blocks}",
    "select mode() within group (order by miner), percentile_cont(0.5) within group (order by gas)"
    " from {blocks}",
    "select * exclude (tags, info) replace (gas * 2 as gas) rename (miner as who) from {blocks}"
    " order by number",
    "select columns('^g|^n'), columns(lambda c: c like 'mi%') from {blocks} order by number",
    "select min(columns(['number', 'gas'])) from {blocks}",
    "select distinct on (miner) miner, number from {blocks} order by miner, number desc",
    "select distinct miner from {blocks} order by miner nulls last limit 1 offset 1",
    "select number from {blocks} order by number limit 50%",
    "select count(*) <= 5 from {blocks} using sample 3 rows",
    "select count(*) from {blocks} tablesample reservoir(100%) repeatable (7)",
    "select number from {blocks} where gas = (select max(gas) from {blocks})",
    "select number from {blocks b} where exists (from transactions t where t.number = b.number)"
    " order by 1",
    "select number from {blocks} where (number, gas) in (select number, gas from {blocks})"
    " and gas >= all (select 1) and number = any ([1, 2]) order by 1",
    "select b.number, o.number from {blocks b} join {blocks o} on b.number = o.number + 1"
    " order by 1",
    "select miner.upper().substr(1, 3), miner[3], miner || '-' || number, hash(miner) = hash(miner)"
    " from {blocks} order by number",
    "select g, (select count(*) from {blocks} where number <= g) c from generate_series(1, 3) s(g)",
    "select v.name, count(b.number) from (values ('0xa', 'A'), ('0xb', 'B')) v(a, name)"
    " left join {blocks b} on b.miner = v.a group by 1 order by 1",
    "describe select number, tags from {blocks}",
    "summarize select number, gas from {blocks}",
    "select column_name from (describe from {blocks})",
    "select 0x1f, 1_000, 1e3, 'it''s', e'a\\tb', $$q@abcd$$, '@4f2a61c0' from {blocks} -- x@4f2a\n"
    " order by number /* blocks@4f2a61c0 */",
    "select @gas, abs(-1), gas ^ 2, gas % 7, gas // 3, [1, 2] @> [1], ~gas & 3 from {blocks}"
    " order by number",
    "select number n, n + 1 m, m * 2 from {blocks} order by n",
    "select total: sum(gas), who: miner from {blocks} group by miner order by all",
    "select collected.k from (select miner collate nocase k from {blocks}) collected order by all",
    "select histogram(miner), bit_xor(gas), corr(number, gas), regr_slope(gas, number)"
    " from {blocks}",
    "select hex('ab'), unhex('6162'), md5(miner), sha256(miner), from_hex('ff') from {blocks}"
    " order by number;",
]

Spell = Callable[[str], str]


def _spelled(sql: str, spell: Spell) -> str:
    return re.sub(r"\{blocks( \w+)?\}", lambda found: spell(found[1] or ""), sql)


SPELLINGS: dict[str, tuple[Spell, str]] = {
    "name@id": (lambda alias: f"blocks@{PIN}{alias}", f"blocks@{PIN}"),
    "quoted": (lambda alias: f'"blocks@{PIN}"{alias}', f"blocks@{PIN}"),
    "version": (lambda alias: f"blocks{alias} at (version => '{PIN}')", f"blocks@{PIN}"),
    "moment": (
        lambda alias: f"blocks{alias}\n at /*(*/ (timestamp\n => timestamp '{MOMENT[:19]}')",
        f"blocks@at {MOMENT}",
    ),
}


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.execute("set timezone = 'UTC'; set threads = 1")
        connection.execute(
            "create table blocks as select i as number, '0x' || chr(96 + (i % 2 + 1)::int) miner,"
            " i * 50 gas, timestamp '2026-01-30 06:00:00' + i * interval 9 hour as ts,"
            " ['a', 'b', 'c'][: (i % 3)::int + 1] tags, {'size': i * 7} info,"
            " json_object('x', json_object('y', i), 'z', json_array(1, i)) body"
            " from range(1, 6) t(i)"
        )
        connection.execute(
            "create table transactions as select i % 3 + 1 as number, 'h' || i as hash,"
            " timestamp '2026-01-31' + i * interval 5 hour as seen from range(4) t(i)"
        )
        for view in {view for _, view in SPELLINGS.values()}:
            connection.execute(f'create view "{view}" as from blocks')
        yield connection


@corpus("sql", HONEST)
def test_it_passes_as_it_is_and_runs(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    plain = _spelled(sql, lambda alias: f"blocks{alias}")
    statement = gate.check(database, plain)
    assert statement.sql == plain
    assert {each.view for each in statement.references} <= {"blocks", "transactions"}
    assert database.execute(statement.sql).fetchall()


@corpus("spelling", list(SPELLINGS))
@corpus("sql", HONEST)
def test_pinned_it_gives_the_same_rows(
    database: duckdb.DuckDBPyConnection, sql: str, spelling: str
) -> None:
    spell, view = SPELLINGS[spelling]
    statement = gate.check(database, _spelled(sql, spell))
    assert {each.view for each in statement.references} - {"transactions"} == {view}
    expected = database.execute(_spelled(sql, lambda alias: f"blocks{alias}"))
    names, rows = [column[0] for column in expected.description or ()], expected.fetchall()
    found = database.execute(statement.sql)
    assert [column[0] for column in found.description or ()] == names
    assert found.fetchall() == rows
