"""`sql_transform` on a real Spark session: its rows, its partitions, and what it refuses to run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import ParseException

from tests.support.frame_task import FrameTasks, given, output
from tests.support.raising_source import RaisingSource
from trace_platform.domain.errors import InvalidConfig, InvalidQuery, RangeNotReady, TraceError
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.contract import Result
from trace_platform.operators.spark import chain_functions
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.operators.transform.private_session import private_session
from trace_platform.operators.transform.spark_plan import refuse_plan
from trace_platform.operators.transform.sql_transform import Config, SqlTransform
from trace_platform.sql.spark import functions
from trace_platform.wire.task import TaskInput, TaskOutput

pytestmark = pytest.mark.spark


@pytest.fixture
def tasks(spark_runtime: SparkRuntime, tmp_path: Path) -> FrameTasks:
    return FrameTasks(spark_runtime, LocalStore(str(tmp_path / "store")))


def transfers(tasks: FrameTasks, start: int, end: int, name: str = "t") -> str:
    numbers = list(range(start, end + 1))
    rows = pa.table(
        {
            "block_number": numbers,
            "token": [bytes([n % 3]) * 20 for n in numbers],
            "value": [str(2**200 + n) for n in numbers],
            "timestamp": [1_700_000_000 + 12 * n for n in numbers],
        }
    )
    return tasks.file(f"{name}_{start}_{end}", rows)


def run(
    tasks: FrameTasks,
    inputs: Sequence[TaskInput],
    outputs: Sequence[TaskOutput] = (),
    /,
    **config: Any,
) -> Result:
    with tasks.task(inputs, outputs or [output()], Config.model_validate(config)) as task:
        return SqlTransform().run(task)


def rows(tasks: FrameTasks, result: Result, index: int = 0) -> list[dict[str, Any]]:
    return tasks.read(result.outputs[index]).to_pylist()


def test_map_writes_the_range_that_woke_it(tasks: FrameTasks) -> None:
    source = given(0, 4, 6, [transfers(tasks, 0, 9)], names=["transfers"])
    result = run(
        tasks,
        [source],
        mode="map",
        sql="select block_number, to_0x(token) token, :least as least, :end as last from transfers"
        " where block_number > :least",
        params={"least": 4},
    )
    (commit,) = result.outputs
    assert (commit.start, commit.end) == (4, 6)
    assert rows(tasks, result) == [
        {"block_number": n, "token": "0x" + f"{n % 3:02x}" * 20, "least": 4, "last": 6}
        for n in (5, 6)
    ]


def test_steps_read_inputs_and_steps_before_them_and_outputs_are_theirs(tasks: FrameTasks) -> None:
    names = pa.table({"token": [bytes([n]) * 20 for n in range(3)], "decimals": [6, 18, 0]})
    inputs = [
        given(0, 0, 9, [transfers(tasks, 0, 9)], names=["transfers", "ingest"]),
        given(1, 0, 9, [tasks.file("tokens", names)], names=["tokens", "ingest"], trigger=False),
    ]
    steps = [
        {"name": "known", "sql": "select * from transfers join tokens using (token)"},
        {"name": "per_token", "sql": "select token, sum_exact(value) total from known group by 1"},
        {"name": "size", "sql": "select block_bucket(max(block_number), 5) last from input_0"},
    ]
    outputs = [output(0, "size"), output(1, "sums")]
    result = run(
        tasks,
        inputs,
        outputs,
        mode="map",
        steps=steps,
        outputs={"sums": "per_token", "size": "size"},
    )
    assert rows(tasks, result, 0) == [{"last": 5}]
    sums = {row["token"]: row["total"] for row in rows(tasks, result, 1)}
    assert sums[bytes(20)] == str(4 * 2**200 + 0 + 3 + 6 + 9)
    with tasks.task(inputs, outputs) as task:
        # What one attempt calls its inputs is nobody else's.
        assert task.spark().catalog.listTables() == []


def test_an_input_without_rows_in_the_range_has_its_columns(tasks: FrameTasks) -> None:
    file = transfers(tasks, 0, 9)
    there = given(0, 20, 29, [transfers(tasks, 20, 29)], names=["a"])
    bare = given(1, 20, 29, names=["b"], trigger=False, columns_of=file)
    joined = "select a.block_number from a left join b using (block_number) where b.token is null"
    assert len(rows(tasks, run(tasks, [there, bare], mode="map", sql=joined))) == 10
    never = given(1, 20, 29, names=["b"], trigger=False)
    with pytest.raises(RangeNotReady, match="input 1 holds nothing yet"):
        run(tasks, [there, never], mode="map", sql=joined)


FOLD = {
    "mode": "fold",
    "fold": {"by": ["token"], "values": {"total": "sum(value)", "n": "count()"}},
    "sql": "select token, value from t",
}


def test_parts_of_a_fold_that_become_one_are_what_all_rows_give_at_once(tasks: FrameTasks) -> None:
    def folded(start: int, end: int) -> Result:
        source = given(0, start, end, [transfers(tasks, start, end)], names=["t"])
        return run(tasks, [source], **FOLD)

    parts = [folded(0, 9), folded(10, 19)]
    files = [file for part in parts for file in tasks.files(part.outputs[0])]
    one = run(tasks, [given(0, 0, 19, names=["t"])], [output(files=files)], **FOLD)
    at_once = folded(0, 19)
    assert sorted(rows(tasks, one), key=str) == sorted(rows(tasks, at_once), key=str)
    columns = [tasks.manifest(each.outputs[0]).columns for each in (one, at_once)]
    assert columns[0] == columns[1]


def test_sums_that_are_longer_than_any_number_are_merged_too(tasks: FrameTasks) -> None:
    longest = 10**117 - 1

    def part(n: int) -> list[str]:
        columns = {"block_number": [n] * 12, "token": [b""] * 12, "value": [str(longest)] * 12}
        source = given(0, n, n, [tasks.file(f"long_{n}_{n}", pa.table(columns))], names=["t"])
        return tasks.files(run(tasks, [source], **FOLD).outputs[0])

    files = [*part(0), *part(1)]
    one = run(tasks, [given(0, 0, 1, names=["t"])], [output(files=files)], **FOLD)
    assert rows(tasks, one) == [{"token": b"", "total": str(24 * longest), "n": 24}]


def test_a_fold_is_not_appended_to(tasks: FrameTasks) -> None:
    source = given(0, 0, 9, [transfers(tasks, 0, 9)], names=["t"])
    with pytest.raises(InvalidConfig, match="they cannot be appended"):
        run(tasks, [source], [output(append=["token"])], **FOLD)


def test_sums_of_text_are_exact_on_both_sides_of_every_length(tasks: FrameTasks) -> None:
    sums = [
        [sign * (10**digits - 1), sign * less, 1]
        for digits in range(1, 100)
        for sign in (1, -1)
        for less in (0, 1, 10**digits)
    ]
    moves = [(n, str(value)) for n, values in enumerate(sums) for value in values]
    columns = {
        "block_number": [0] * len(moves),
        "token": [n.to_bytes(2, "big") for n, _ in moves],
        "value": [value for _, value in moves],
    }
    source = given(0, 0, 0, [tasks.file("moves", pa.table(columns))], names=["t"])
    made = {row["token"]: row["total"] for row in rows(tasks, run(tasks, [source], **FOLD))}
    assert made == {n.to_bytes(2, "big"): str(sum(values)) for n, values in enumerate(sums)}


HOURS = {"mode": "window", "window": {"every": "1m", "most_blocks": 10}}
COUNTED = "select timestamp div 60 as minute, count(*) as n from t group by all"


def test_buckets_of_time_that_begin_in_the_range_are_seen_whole_and_no_others(
    tasks: FrameTasks,
) -> None:
    """Minutes begin with blocks 19, 24, 29 and 34."""
    whole = given(0, 11, 38, [transfers(tasks, 0, 49)], names=["t"], trigger=False)
    woken = given(0, 20, 29, names=["t"])
    made = rows(tasks, run(tasks, [woken, whole], sql=COUNTED, **HOURS))
    assert sorted(row["minute"] - 1_700_000_220 // 60 for row in made) == [1, 2]
    assert [row["n"] for row in made] == [5, 5]


def test_what_lies_around_buckets_of_time_is_read_and_is_no_result(tasks: FrameTasks) -> None:
    """Minutes begin with blocks 19, 24, 29 and 34, of which this task has those of 24 and 29."""
    window = {"every": "1m", "most_blocks": 10, "before": "30s", "time": "at"}
    sql = (
        "select timestamp_seconds(minute * 60) as at, n + lag(n) over (order by minute) as two"
        f" from ({COUNTED})"
    )
    whole = given(0, 1, 39, [transfers(tasks, 0, 49)], names=["t"], trigger=False)
    woken = given(0, 20, 29, names=["t"])
    made = rows(tasks, run(tasks, [woken, whole], mode="window", window=window, sql=sql))
    assert [row["two"] for row in made] == [10, 10]
    assert sorted(row["at"].timestamp() - 1_700_000_220 for row in made) == [60, 120]
    with pytest.raises(InvalidConfig, match=r"window\.time: the result has no column at") as caught:
        run(tasks, [woken, whole], mode="window", window=window, sql=COUNTED)
    assert caught.value.hint == "it has: minute, n"


NOT_OF_TIME = {
    "select block_number, 1 as n from t": (
        {"most_blocks": 10},
        InvalidConfig,
        "rows of buckets of time have a column block_number",
    ),
    COUNTED: (
        {"most_blocks": 4},
        InvalidQuery,
        "a bucket of time has more than 4 blocks, and window.most_blocks says 4",
    ),
}


def test_buckets_of_time_that_cannot_be_exact_are_refused(tasks: FrameTasks) -> None:
    source = given(0, 20, 29, [transfers(tasks, 20, 29)], names=["t"])
    for sql, (bound, kind, said) in NOT_OF_TIME.items():
        with pytest.raises(kind, match=said):
            run(tasks, [source], mode="window", window={"every": "1m", **bound}, sql=sql)
    # Minute 29 to 33 belongs to the task below, which may have seen a part of it alone.
    above = given(0, 30, 33, [transfers(tasks, 27, 36)], names=["t"])
    around = above.model_copy(update={"start": 27, "end": 36, "trigger": False})
    narrow = {"every": "1m", "most_blocks": 4}
    with pytest.raises(InvalidQuery, match="a bucket of time has more than 4 blocks"):
        run(tasks, [above, around], mode="window", window=narrow, sql=COUNTED)
    times = pa.table({"block_number": [20, 21], "timestamp": pa.array([None, 1_700_000_000])})
    unknown = given(0, 20, 29, [tasks.file("unknown", times)], names=["t"])
    with pytest.raises(InvalidQuery, match="input 0 has rows whose timestamp is null"):
        run(tasks, [unknown], sql=COUNTED, **HOURS)
    timeless = tasks.file("timeless", pa.table({"block_number": [20, 21]}))
    with pytest.raises(InvalidConfig, match="input 0 has blocks and no column timestamp"):
        run(tasks, [given(0, 20, 29, [timeless], names=["t"])], sql="select 1 as n from t", **HOURS)


WRONG = {
    "select nope from t": "step sql, line 1, column 8: .*`nope` cannot be resolved",
    "select\n  value\n from t where": "step sql, line 3, column 9: this is no SQL",
    "select 1 as x from other": "step sql: 'other' is no input of the job and no earlier step",
    "select sum(array(value)) as x from t": "step sql, line 1, column 8: ",
}


def test_what_is_wrong_with_a_statement_is_told_with_its_step_and_place(tasks: FrameTasks) -> None:
    source = given(0, 0, 9, [transfers(tasks, 0, 9)], names=["t"])
    for sql, said in WRONG.items():
        with pytest.raises(InvalidQuery, match=said):
            run(tasks, [source], mode="map", sql=sql)


def test_a_value_that_cannot_be_taken_is_told_by_its_place_alone(tasks: FrameTasks) -> None:
    source = given(0, 0, 9, [transfers(tasks, 0, 9)], names=["t"])
    steps = [
        {"name": "a", "sql": "select * from t"},
        {"name": "b", "sql": "select\n  cast(value as int) as x\n from a"},
    ]
    with pytest.raises(InvalidQuery) as caught:
        run(tasks, [source], mode="map", steps=steps)
    assert caught.value.message.startswith("step b, line 2, column 3: CAST_INVALID_INPUT on a row")
    assert str(2**200)[:20] not in caught.value.message + str(caught.value.hint)


ATTACKS = """
create table x as select 1
create temporary view v as select 1
create temporary function f as 'java.lang.Runtime'
insert into t select * from t
insert overwrite directory '/tmp/x' using parquet select * from t
from t insert overwrite directory '/tmp/x' using parquet select *
set spark.sql.runSQLOnFiles=true
reset
add jar '/tmp/x.jar'
add file '/etc/passwd'
list jars
use other
show tables
show functions
describe t
explain select 1
cache table t
drop view t
delete from t
merge into t using t as s on 1=1 when matched then delete
select * from parquet.`/etc/passwd`
select * from text.`/etc/passwd`
select * from json.`file:///etc/passwd`
select * from binaryFile.`/etc/passwd`
select * from `text`.`/etc/passwd` x
with a as (select * from text.`/etc/passwd`) select * from a
select (select max(value) from text.`/etc/passwd`) as x
select 1 as x where exists (select 1 from csv.`/etc/passwd`)
select * from identifier('text.`/etc/passwd`')
select * from identifier('te' || 'xt.`/etc/passwd`')
select * from spark_catalog.default.t
select * from global_temp.t
select java_method('java.lang.System', 'getProperty', 'user.home') as x
select reflect('java.lang.System', 'getenv', 'PATH') as x
select try_reflect('java.lang.System', 'getenv', 'PATH') as x
select system.builtin.reflect('java.lang.System', 'getenv', 'PATH') as x
select `java_method`('java.lang.System', 'getenv', 'PATH') as x
select /* x */ reflect /* y */ ('java.lang.System', 'getenv', 'PATH') as x
select 1 as x from t lateral view explode(array(reflect('java.lang.System', 'getenv', 'A'))) q as z
select transform(array(1), x -> reflect('java.lang.System', 'getenv', 'PATH')) as x
select input_file_name() as x from t
select transform(value) using 'cat /etc/passwd' as (x) from t
from t map value using 'cat' as (x)
from t reduce value using 'cat' as (x)
execute immediate 'select 1'
begin select 1; end
declare x int
call f()
load data inpath '/etc/passwd' into table t
select 1 as x; select 2 as y
values (1)
table t
""".strip().splitlines()


def test_no_statement_reaches_files_programs_or_the_session(tasks: FrameTasks) -> None:
    source = given(0, 0, 9, [transfers(tasks, 0, 9)], names=["t"])
    for sql in ATTACKS:
        with pytest.raises(TraceError) as caught:
            run(tasks, [source], mode="map", sql=sql)
        assert caught.value.code == "invalid_query", sql


def test_sparks_own_parser_refuses_the_same_where_the_other_would_be_deceived(
    tasks: FrameTasks,
) -> None:
    with tasks.task([], []) as task:
        # The last two are no SELECT, and harmless.
        for sql in [*ATTACKS[:-2], "select count(*) as x from t where reflect('a', 'b') is null"]:
            refused = None
            try:
                refuse_plan(task.spark(), sql)
            except (InvalidQuery, ParseException) as error:
                refused = error
            assert refused is not None, sql


def test_the_functions_that_may_be_called_are_those_that_there_are(tasks: FrameTasks) -> None:
    with tasks.task([], []) as task:
        there = {row[0] for row in task.spark().sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {name for name in there if name.isidentifier()} == functions.of_spark()
    assert chain_functions.NAMES == functions.CHAIN
    assert functions.of_spark() | {"identifier"} >= functions.REFUSED


def test_the_threads_next_task_finds_what_is_registered_in_the_shared_session(
    tasks: FrameTasks, spark_runtime: SparkRuntime
) -> None:
    """Spark looks data sources up in the session that is active in the thread."""
    spark = spark_runtime.session()
    config = Config(mode="full", sql="select 1")
    with tasks.task([], [output()], config) as task, private_session(task) as own:
        own.spark().createDataFrame([(1,)], "n int").collect()
    spark.dataSource.register(RaisingSource)
    spark.range(3).write.format("raising").option("where", "none").mode("append").save()
