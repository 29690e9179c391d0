"""The Spark SQL of a DAG is checked before anything runs: each mistake with its line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

import trace_platform.examples
from trace_platform.dag.check.check_dag import NOTHING_KNOWN, check_dag, check_file
from trace_platform.dag.check.statements import Known
from trace_platform.dag.model.fingerprint import fingerprints
from trace_platform.dag.read.errors import DagErrors
from trace_platform.sql.relations import Column

DAG = """
name: d
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{ from: { job: request } }]
    outputs: [blocks, transactions, logs]
    config: { chain_id: 1, rpc_pool: mainnet }
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs:
      - { from: { job: ingest, output: logs } }
      - { from: { job: ingest, output: blocks }, trigger: false }
      - { from: { dataset: prices }, trigger: false }
    outputs: [decoded]
    config:
      mode: map
      params: { least: 5 }
      sql: |
SQL
"""
# Every line of a statement, and what is said of it: line within the statement, column, words.
WRONG = [
    ("select nope from logs", 1, 8, "there is no column 'nope'; there are address,"),
    ("select block_numbr\nfrom logs", 1, 8, "did you mean block_number?"),
    ("select 1 as x\n from  log", 2, 8, "'log' is no input of the job and no earlier step; did"),
    ("select l.gas_used from logs l join blocks b", 1, 10, "there is no column 'gas_used'"),
    ("select keccak(data) as k from logs", 1, 8, "did you mean keccak256?"),
    ("select data as d\n  from logs where (", 2, 19, "this is no SQL that can be read near '('"),
    ("select count(*) from logs", 1, 8, "this column has no name"),
    ("select sum_exact(data) as a, count(*) as n from logs", 1, 8, "beside no other aggregate"),
    ("select :lest as x from logs", 1, 8, "there is no parameter :lest; did you mean least?"),
    ("drop table logs", 1, 1, "DROP is no SELECT"),
    ("select 1 as x; select 2 as x", 1, 23, "it has to be one SELECT"),
    ("select * from parquet.`/x`", 1, 15, "is no input: SQL reads the job's inputs"),
    ("select reflect('a', 'b') as x from logs", 1, 8, "reflect may not be called"),
    ("select data from logs where address = '0xab'", 1, 29, "write X'ab'"),
    ("select * from request", 1, 15, "'request' is no input"),
    ("with a as (select data from logs) select x from a", 1, 42, "there are data"),
]
RIGHT = [
    "select l.block_number, b.gas_used from logs l join blocks b using (block_number)",
    "select Block_Number as BN from Input_0 where block_number between :start and :end - :least",
    "select a.data from logs a where exists (select 1 from blocks where timestamp = a.timestamp)",
    "select x.e from logs lateral view explode(array(1, 2)) x as e",
    "select transform(array(1), y -> y + 1) as z, sum_exact(bytes_to_uint(data)) as s from logs",
    "select whatever from prices join logs using (block_number)",
    "select time_bucket(interval 1 hour, timestamp_seconds(timestamp)) as h, count(*) n"
    " from logs group by all having n > 1 order by n",
    "select block_number + 1 as x, x + 1 as y from logs qualify row_number() over (order by x) = 1",
    "select id as n, u.a from range(3) join (values (1, 2)) as u(a, b) on true, logs",
]


def said(sql: str, known: Known = NOTHING_KNOWN) -> list[tuple[int, int, str]]:
    first = DAG[: DAG.index("SQL")].count("\n") + 1
    text = DAG.replace("SQL", "\n".join(f"        {line}" for line in sql.splitlines()))
    try:
        check_file(text, known=known)
    except DagErrors as found:
        return [(e.line - first + 1, e.column - 8, e.problem) for e in found.errors]
    return []


def test_each_mistake_is_told_at_its_place() -> None:
    for sql, line, column, words in WRONG:
        (found,) = said(sql)
        assert found[:2] == (line, column), (sql, found)
        assert words in found[2], (sql, found)


def test_what_spark_would_run_is_refused_by_nobody() -> None:
    for sql in RIGHT:
        assert said(sql) == [], sql


def test_columns_that_an_instance_knows_are_checked_too() -> None:
    known = Known(datasets={"prices": [Column("block_number", "BIGINT"), Column("usd", "DOUBLE")]})
    ((_, _, told),) = said("select p.eur from prices p", known)
    assert told == "there is no column 'eur'; there are block_number, usd"


NEXT = """
  - name: next
    activation: reactive
    runtime: ecs_platform
    operator: OPERATOR
    inputs: [{ from: { job: decode } }]
    outputs: [out]
    config: { CONFIG }
"""


@pytest.mark.parametrize(
    ("operator", "config", "words"),
    [
        ("sql_transform", "mode: map, sql: select tken from decode", "did you mean token?"),
        ("query_export", "sql: select tken from input_0", "did you mean token"),
        ("query_export", "sql: select token + 1 as x from input_0", "No function matches"),
    ],
)
def test_what_a_statement_makes_is_known_to_the_readers_below(
    operator: str, config: str, words: str
) -> None:
    above = "        select address as token, block_number from logs"
    below = NEXT.replace("OPERATOR", operator).replace("CONFIG", config)
    with pytest.raises(DagErrors) as caught:
        check_dag(DAG.replace("SQL", above) + below)
    (error,) = caught.value.errors
    assert words in error.problem
    check_dag(DAG.replace("SQL", above) + below.replace("tken", "token").replace(" + 1 as x", ""))


def test_an_output_without_a_step_is_refused() -> None:
    steps = "mode: full, steps: [{ name: a, sql: select token from decode }]"
    below = NEXT.replace("OPERATOR", "sql_transform").replace("[out]", "[a, b]")
    above = "        select address as token, block_number from logs"
    with pytest.raises(DagErrors) as caught:
        check_dag(DAG.replace("SQL", above) + below.replace("CONFIG", steps))
    (error,) = caught.value.errors
    assert error.problem.startswith("no step makes the rows of output 'b'")


def test_a_statement_that_is_only_written_differently_is_the_same_job() -> None:
    def of(sql: str) -> dict[str, str]:
        text = DAG.replace("SQL", "\n".join(f"        {line}" for line in sql.splitlines()))
        return fingerprints(check_dag(text))

    one = of("select data, 'a  b' as x from logs -- said")
    assert one == of("select data,\n 'a  b' as x\n/* of */ from logs")
    assert one["decode"] != of("select data, 'a b' as x from logs")["decode"]


def test_the_examples_are_right() -> None:
    example = Path(trace_platform.examples.__path__[0]) / "transform.yaml"
    assert {job.name for job in check_dag(example.read_text()).jobs} == {
        "decode", "activity", "summary",
    }  # fmt: skip
