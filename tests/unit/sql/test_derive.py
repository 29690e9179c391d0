"""What the columns of a statement are made of, over a corpus of SQL."""

from __future__ import annotations

from collections.abc import Mapping

from trace_platform.sql.checks import Program, Readable, Step
from trace_platform.sql.derivation import Derivation
from trace_platform.sql.relations import Column
from trace_platform.sql.spark.bind import bind

LOGS = Readable(
    columns=[
        Column("block_number", "BIGINT"),
        Column("address", "BLOB"),
        Column("topics", "BLOB[]"),
        Column("data", "BLOB"),
        Column("place", "STRUCT(tx BIGINT, log BIGINT)"),
    ]
)
BLOCKS = Readable(columns=[Column("block_number", "BIGINT"), Column("timestamp", "BIGINT")])
LABELS = Readable(columns=[Column("address", "BLOB"), Column("label", "VARCHAR")])
# Nobody knows its columns.
STRANGE = Readable()
RELATIONS = {"logs": LOGS, "blocks": BLOCKS, "labels": LABELS, "strange": STRANGE}

# Statement, what each column is made of, what decides which rows there are.
CORPUS: list[tuple[str, dict[str, str], str]] = [
    ("select address from logs", {"address": "logs.address"}, ""),
    ("SELECT `Address` AS `Who` FROM Logs", {"who": "logs.address"}, ""),
    ("select 1 as one, current_date() as today from logs", {"one": "", "today": ""}, ""),
    (
        "select * from labels",
        {"address": "labels.address", "label": "labels.label"},
        "",
    ),
    (
        "select l.*, b.timestamp as t from labels l cross join blocks b",
        {"address": "labels.address", "label": "labels.label", "t": "blocks.timestamp"},
        "",
    ),
    ("select * except (label) from labels", {"address": "labels.address"}, ""),
    # Expressions
    (
        "select case when block_number > 1 then data end as d from logs",
        {"d": "logs.block_number logs.data"},
        "",
    ),
    ("select cast(block_number as string) || 'x' as t from logs", {"t": "logs.block_number"}, ""),
    ("select topics[0] as topic from logs", {"topic": "logs.topics"}, ""),
    ("select place.tx as tx from logs", {"tx": "logs.place"}, ""),
    ("select transform(topics, x -> hex(x)) as t from logs", {"t": "logs.topics"}, ""),
    (
        "select block_number as n, n + 1 as next from blocks",
        {"n": "blocks.block_number", "next": "blocks.block_number"},
        "",
    ),
    (
        "select named_struct('a', address, 'd', data) as s from logs",
        {"s": "logs.address logs.data"},
        "",
    ),
    (
        "select s.a as a from (select named_struct('a', address) as s from logs)",
        {"a": "logs.address"},
        "",
    ),
    # Rows that are left out
    (
        "select data from logs where address = X'00' and block_number > 3",
        {"data": "logs.data"},
        "logs.address logs.block_number",
    ),
    (
        "select distinct address from logs",
        {"address": "logs.address"},
        "logs.address",
    ),
    (
        "select data from logs order by block_number limit 3",
        {"data": "logs.data"},
        "logs.block_number",
    ),
    ("select data from logs order by block_number", {"data": "logs.data"}, ""),
    # Aggregates
    (
        "select address, count(*) as n, max(block_number) as last from logs group by address",
        {"address": "logs.address", "n": "", "last": "logs.block_number"},
        "logs.address",
    ),
    (
        "select block_number as b, count(data) as n from logs group by 1 having max(topics) > 0",
        {"b": "logs.block_number", "n": "logs.data"},
        "logs.block_number logs.topics",
    ),
    (
        "select address, count(*) as n from logs group by all",
        {"address": "logs.address", "n": ""},
        "logs.address",
    ),
    (
        "select row_number() over (partition by address order by block_number) as n from logs",
        {"n": "logs.address logs.block_number"},
        "",
    ),
    # Joins
    (
        "select l.data, b.timestamp from logs l join blocks b on l.block_number = b.block_number",
        {"data": "logs.data", "timestamp": "blocks.timestamp"},
        "blocks.block_number logs.block_number",
    ),
    (
        "select data, timestamp from logs join blocks using (block_number)",
        {"data": "logs.data", "timestamp": "blocks.timestamp"},
        "blocks.block_number logs.block_number",
    ),
    (
        "select a.data as x, b.data as y from logs a join logs b on a.address = b.address",
        {"x": "logs.data", "y": "logs.data"},
        "logs.address",
    ),
    (
        "select data from logs left semi join labels on logs.address = labels.address",
        {"data": "logs.data"},
        "labels.address logs.address",
    ),
    (
        "select a.data from logs a join logs b using (address)"
        " left semi join logs c on a.data = c.topics[0]",
        {"data": "logs.data"},
        "logs.address logs.data logs.topics",
    ),
    # Statements in statements
    (
        "with a as (select address as x from logs), b as (select x as y from a) select y from b",
        {"y": "logs.address"},
        "",
    ),
    (
        "with a(p, q) as (select address, data from logs) select q from a",
        {"q": "logs.data"},
        "",
    ),
    (
        "select q.k from (select address, data from logs where block_number > 1) q(k, v)",
        {"k": "logs.address"},
        "logs.block_number",
    ),
    (
        "select (select max(timestamp) from blocks b where b.block_number = l.block_number) as m"
        " from logs l",
        {"m": "blocks.block_number blocks.timestamp logs.block_number"},
        "",
    ),
    (
        "select data from logs where address in (select address from labels where label = 'x')",
        {"data": "logs.data"},
        "labels.address labels.label logs.address",
    ),
    (
        "select data from logs l where exists"
        " (select 1 from labels where labels.address = l.address)",
        {"data": "logs.data"},
        "labels.address logs.address",
    ),
    # Set operations
    (
        "select address as a, data as d from logs union all select address, X'00' from labels",
        {"a": "labels.address logs.address", "d": "logs.data"},
        "",
    ),
    (
        "select address from logs union select address from labels",
        {"address": "labels.address logs.address"},
        "labels.address logs.address",
    ),
    (
        "select q.k from (select address from logs union all select address from labels) q(k)",
        {"k": "labels.address logs.address"},
        "",
    ),
    # Functions that make rows
    (
        "select t.topic, l.data from logs l lateral view explode(topics) t as topic",
        {"topic": "logs.topics", "data": "logs.data"},
        "logs.topics",
    ),
    (
        "select topic from logs, lateral explode(topics) as t(topic)",
        {"topic": "logs.topics"},
        "logs.topics",
    ),
    ("select explode(topics) as topic from logs", {"topic": "logs.topics"}, "logs.topics"),
    (
        "select posexplode(topics) as (n, topic) from logs",
        {"n": "logs.topics", "topic": "logs.topics"},
        "logs.topics",
    ),
    ("select a, b from values (1, 2), (3, 4) as t(a, b)", {"a": "", "b": ""}, ""),
    ("select id from range(10)", {"id": ""}, ""),
    # Of inputs whose columns nobody knows
    ("select anything as a from strange", {"a": "strange.anything"}, ""),
    (
        "select s.x, l.label from strange s join labels l on s.y = l.address",
        {"x": "strange.x", "label": "labels.label"},
        "labels.address strange.y",
    ),
]
# Of these nothing is said: it would be a guess.
UNCLEAR = [
    "select * from strange",
    "select x, label from strange s join labels l on s.y = l.address",
    "with recursive r as (select block_number as n from logs union all"
    " select n + 1 as n from r where n < 5) select n from r",
    "select * from (select address, block_number from logs)"
    " pivot (count(block_number) for address in (X'00' as zero))",
]
# Before, after, the columns that are computed in another way, and whether other rows are there.
EDITS: list[tuple[str, str, set[str], bool]] = [
    ("select address, data from logs", "SELECT  address,\n data -- all\nFROM logs l", set(), False),
    ("select address, data from logs", "select data, address from logs", set(), False),
    (
        "select address, data from logs",
        "with a as (select * from logs) select a.address, a.data from a",
        set(),
        False,
    ),
    ("select hex(address) as a from logs", "select HEX(l.Address) as A from logs l", set(), False),
    (
        "select address, hex(data) as d from logs",
        "select address, lower(hex(data)) as d from logs",
        {"d"},
        False,
    ),
    (
        "select address as a, data as b from logs",
        "select data as a, data as b from logs",
        {"a"},
        False,
    ),
    ("select address from logs", "select address from logs where block_number > 1", set(), True),
    (
        "select address from logs where block_number > 1",
        "select address from logs where block_number > 2",
        set(),
        True,
    ),
    (
        "select address from logs",
        "select logs.address from logs left join labels using (address)",
        set(),
        True,
    ),
    (
        "select max(data) as d from logs group by address",
        "select min(data) as d from logs group by address",
        {"d"},
        False,
    ),
    (
        "select max(data) as d from logs group by address",
        "select max(data) as d from logs group by block_number",
        set(),
        True,
    ),
    (
        "select address as a, max(data) as d from logs group by all",
        "select hex(address) as a, max(data) as d from logs group by all",
        {"a"},
        True,
    ),
    ("select max(data) as d from logs", "select data as d from logs", {"d"}, True),
    ("select data from logs", "select distinct data from logs", set(), True),
    (
        "select a.data from logs a join logs b on a.address = b.data",
        "select b.data from logs a join logs b on a.address = b.data",
        {"data"},
        False,
    ),
    (
        "select data from logs limit 1",
        "select data from logs limit 2",
        set(),
        True,
    ),
    (
        "with a as (select hex(data) as d, address from logs) select address, upper(d) as u from a",
        "with a as (select base64(data) as d, address from logs)"
        " select address, upper(d) as u from a",
        {"u"},
        False,
    ),
    (
        "select address from logs where data in (select address from labels)",
        "select address from logs where data in (select address from labels where label = '')",
        set(),
        True,
    ),
    (
        "select address from logs union all select address from labels",
        "select address from logs union select address from labels",
        set(),
        True,
    ),
]


def derived(*steps: str, values: Mapping[str, str] | None = None) -> Derivation | None:
    named = [Step(f"s{n}", sql) for n, sql in enumerate(steps)]
    given = dict(values or {})
    answer = bind(Program(steps=named, words=list(given), values=given), RELATIONS)
    assert not [each.problems for each in answer.steps if each.problems], steps
    return answer.steps[-1].derivation


def origins(found: Derivation) -> dict[str, str]:
    return {
        column.name: " ".join(f"{each.source}.{each.column}" for each in column.origins)
        for column in found.columns
    }


def test_each_column_says_whose_values_it_is_computed_from() -> None:
    for sql, columns, rows in CORPUS:
        found = derived(sql)
        assert found is not None, sql
        assert origins(found) == columns, sql
        assert " ".join(f"{o.source}.{o.column}" for o in found.rows_from) == rows, sql


def test_nothing_is_said_where_it_would_be_a_guess() -> None:
    for sql in UNCLEAR:
        assert derived(sql) is None, sql


def test_lineage_reaches_through_steps_to_the_inputs() -> None:
    found = derived(
        "select address, hex(data) as text, block_number from logs where block_number > 1",
        "select s0.*, b.timestamp from s0 join blocks b using (block_number)",
        "select address as who, max(text) as most, min(timestamp) as first from s1 group by 1",
    )
    assert found is not None
    assert origins(found) == {
        "who": "logs.address",
        "most": "logs.data",
        "first": "blocks.timestamp",
    }
    assert {f"{each.source}.{each.column}" for each in found.rows_from} == {
        "logs.block_number", "blocks.block_number", "logs.address",
    }  # fmt: skip


def test_a_step_that_is_not_understood_leaves_those_that_do_not_read_it() -> None:
    unclear = UNCLEAR[0]
    assert derived(unclear, "select x from s0") is None
    assert derived(unclear, "select address from logs") is not None


def test_names_of_a_step_are_known_also_when_the_types_of_its_input_are_not() -> None:
    found = derived("select x, hex(y) as y from strange where z = 1", "select * from s0 order by x")
    assert found is not None
    assert origins(found) == {"x": "strange.x", "y": "strange.y"}
    assert [column.type for column in found.columns] == ["", ""]


def test_a_type_that_nobody_knows_is_not_made_up_further_on() -> None:
    found = derived(
        "select sum_exact(block_number) as total from logs",
        "select total, coalesce(total, X'00') as other, hex(total) as text from s0",
    )
    assert found is not None
    assert [column.type for column in found.columns] == ["", "", "VARCHAR"]


def test_types_stand_beside_the_origins() -> None:
    found = derived("select block_number, hex(data) as t, count(*) as n from logs group by 1, 2")
    assert found is not None
    assert [column.type for column in found.columns] == ["BIGINT", "VARCHAR", "BIGINT"]


def test_names_of_one_input_are_one_source() -> None:
    relations = {
        "logs": Readable(columns=LOGS.columns, source="0"),
        "input_0": Readable(columns=LOGS.columns, source="0"),
    }
    first, second = (
        bind(Program(steps=[Step("s", f"select data from {name}")]), relations).steps[0].derivation
        for name in relations
    )
    assert first == second
    assert first is not None
    assert origins(first) == {"data": "0.data"}


def test_an_edit_changes_what_is_computed_in_another_way_and_nothing_else() -> None:
    for before, after, columns, rows in EDITS:
        old, new = derived(before), derived(after)
        assert old is not None, before
        assert new is not None, after
        meant = {column.name: column.meaning for column in old.columns}
        changed = {c.name for c in new.columns if meant.get(c.name) != c.meaning}
        assert changed == columns, (before, after)
        assert (old.rows_meaning != new.rows_meaning) == rows, (before, after)


def test_another_value_of_a_parameter_is_another_meaning() -> None:
    sql = "select address, block_number + :more as n from logs where block_number > :least"
    first = derived(sql, values={"more": "1", "least": "5"})
    more = derived(sql, values={"more": "2", "least": "5"})
    least = derived(sql, values={"more": "1", "least": "6"})
    assert first is not None
    assert more is not None
    assert least is not None
    same = [a.meaning == b.meaning for a, b in zip(first.columns, more.columns, strict=True)]
    assert same == [True, False]
    assert first.rows_meaning == more.rows_meaning
    assert first.columns == least.columns
    assert first.rows_meaning != least.rows_meaning
