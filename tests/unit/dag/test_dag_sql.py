"""What is known of the columns that a DAG's SQL reads, before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trace_platform.examples
from trace_platform.dag.check.check_dag import NOTHING_KNOWN, check_file
from trace_platform.dag.check.statements import Known
from trace_platform.dag.read.dag_yaml import DagErrors
from trace_platform.operators.evm.schema import TABLES
from trace_platform.operators.staging import manifest_columns
from trace_platform.sql.relations import Column
from trace_platform.wire.query_columns import query_columns

EXAMPLES = Path(trace_platform.examples.__path__[0])
CHAIN = {"chain_id": 1, "rpc_pool": "mainnet"}
REQUEST: dict[str, Any] = {"name": "request", "activation": "source", "source": {"kind": "manual"}}
INGEST: dict[str, Any] = {
    "name": "ingest",
    "activation": "reactive",
    "runtime": "ecs_platform",
    "operator": "cryo_ingest",
    "inputs": [{"from": {"job": "request"}}],
    "outputs": ["blocks", "transactions", "logs"],
    "config": CHAIN,
}
FOLLOW: dict[str, Any] = {
    "name": "follow",
    "activation": "source",
    "source": {"kind": "always_on"},
    "runtime": "ecs_platform",
    "operator": "block_follower",
    "outputs": ["blocks", "transactions", "logs"],
    "config": CHAIN,
}
HOOK: dict[str, Any] = {
    "name": "hook",
    "activation": "source",
    "source": {"kind": "webhook", "secret": "key"},
}


def read(text: str, dataset: str | None = None, **inputs: Any) -> dict[str, Any]:
    edges = inputs.get("inputs") or [{"from": {"dataset": dataset}}]
    return {
        "name": inputs.get("name", "export"),
        "activation": "reactive",
        "runtime": "ecs_platform",
        "operator": "query_export",
        "inputs": edges,
        "config": {"sql": text} | inputs.get("config", {}),
    }


def of(job: str, output: int | str = 0, **fields: Any) -> dict[str, Any]:
    return {"from": {"job": job, "output": output}, **fields}


def said(*jobs: dict[str, Any], known: Known = NOTHING_KNOWN, **publish: Any) -> list[str]:
    try:
        check_file(json.dumps({"name": "d", "jobs": jobs, "publish": publish}), known=known)
    except DagErrors as found:
        return [error.problem for error in found.errors]
    return []


def chain_columns(table: str) -> list[Column]:
    found = query_columns(manifest_columns(TABLES[table]))
    assert found is not None
    return [Column(each.name, each.type) for each in found]


@pytest.mark.parametrize(
    ("jobs", "edge"),
    [
        ([REQUEST, INGEST], of("ingest", "blocks")),
        ([FOLLOW], of("follow", "blocks")),
        ([HOOK], of("hook")),
    ],
)
def test_what_operators_and_hooks_write_is_known(
    jobs: list[dict[str, Any]], edge: dict[str, Any]
) -> None:
    (told,) = said(*jobs, read("select nothing_such from input_0", inputs=[edge]))
    assert '"nothing_such" not found' in told
    name = "body" if jobs == [HOOK] else "block_hash"
    assert said(*jobs, read(f"select {name} from input_0", inputs=[edge])) == []


def test_compacted_files_have_the_columns_of_what_was_compacted() -> None:
    compact = {
        "name": "compact",
        "activation": "reactive",
        "runtime": "ecs_platform",
        "operator": "parquet_compact",
        "inputs": [of("request"), of("ingest", "logs", trigger=False)],
        "outputs": ["logs"],
    }
    jobs = [REQUEST, INGEST, compact]
    assert said(*jobs, read("select topic0 from input_0", inputs=[of("compact")])) == []
    (told,) = said(*jobs, read("select topic from input_0", inputs=[of("compact")]))
    assert "did you mean topic" in told


def test_a_published_name_is_known_with_its_cold_part() -> None:
    published = {"from": {"job": "follow", "output": "blocks"}}
    cold = published | {"cold": {"job": "cold", "output": 0}}
    own = {"name": "cold", **{k: v for k, v in INGEST.items() if k != "name"}}
    jobs = [REQUEST, FOLLOW, own]
    asked = read("select b.block_hash from tip b", "tip")
    assert said(*jobs, asked, tip=published) == []
    assert said(*jobs, asked, tip=cold) == []
    (told,) = said(*jobs, read("select x from tip", "tip"), tip=cold)
    assert '"x" not found' in told


def test_an_answer_has_the_columns_that_a_file_of_it_has() -> None:
    first = read(
        "select block_number, sum(gas_used) as gas, uuid() as id, {'a': 1::hugeint} as s,"
        " count(*) as n from input_0 group by all",
        inputs=[of("ingest", "blocks")],
        name="first",
    )
    asked = "select gas::decimal(38, 0) + 1, n + 1, id || 'x', s.a + 1 from input_0"
    assert said(REQUEST, INGEST, first, read(asked, inputs=[of("first")])) == []
    (told,) = said(REQUEST, INGEST, first, read("select id + 1 from input_0", inputs=[of("first")]))
    assert "VARCHAR" in told
    (told,) = said(REQUEST, INGEST, first, read("select gass from input_0", inputs=[of("first")]))
    assert "did you mean gas" in told


def test_what_a_mistaken_statement_writes_is_not_known() -> None:
    first = read("select x from input_0", inputs=[of("ingest", "blocks")], name="first")
    problems = said(REQUEST, INGEST, first, read("select y from input_0", inputs=[of("first")]))
    assert len(problems) == 1


def test_columns_that_the_instance_knows_count_where_no_operator_says_them() -> None:
    known = Known(
        datasets={"pools": [Column("pool", "BLOB")]},
        outputs={("own", 0): [Column("n", "BIGINT")]},
    )
    own = {
        "name": "own",
        "activation": "reactive",
        "runtime": "ecs_platform",
        "operator": "no_op",
        "inputs": [of("request")],
    }
    asked = [{"from": {"dataset": "pools"}}, of("own", trigger=False)]
    job = read("select p.pol, o.n from pools p, input_1 o", inputs=asked)
    assert said(REQUEST, own, job) == []
    (told,) = said(REQUEST, own, job, known=known)
    assert "pol" in told


def test_a_name_of_another_dag_is_no_input_of_the_job() -> None:
    (told,) = said(REQUEST, INGEST, read("select 1 from prices", inputs=[of("ingest", "blocks")]))
    assert told == "'prices' is no input of the job; it reads input_0"


def test_nothing_is_said_of_names_where_an_input_is_wrong() -> None:
    asked = [of("request"), {"from": {"dataset": "pools"}, "triger": False}]
    (told,) = said(REQUEST, read("select 1 from pools", inputs=asked))
    assert told == "unknown field; did you mean 'trigger'?"


def test_a_word_that_is_none_says_which_there_are() -> None:
    (told,) = said(REQUEST, INGEST, read("select $tik from input_0", inputs=[of("ingest")]))
    assert "$start and $end, or $tick" in told


def test_jobs_in_a_circle_are_told_as_that_and_their_sql_is_read_all_the_same() -> None:
    one = read("select 1 from input_0", inputs=[of("two")], name="one")
    two = read("selct 1", inputs=[of("one")], name="two")
    problems = said(one, two)
    assert any("syntax error" in each for each in problems)
    assert any("cycle" in each or "circle" in each for each in problems)


def test_a_long_row_of_jobs_that_pass_updates_on_is_followed_to_its_end() -> None:
    """Each is woken by the two before it: looked at by path, there would be no end."""
    jobs: list[dict[str, Any]] = [{"name": "clock", **SCHEDULE}]
    for n in range(400):
        above = [of(jobs[-1]["name"])] + ([of(jobs[-2]["name"])] if n > 0 else [])
        passing = {"activation": "reactive", "runtime": "ecs_platform", "operator": "no_op"}
        jobs.append({"name": f"pass_{n}", **passing, "inputs": above})
    split = INGEST | {"inputs": [of(jobs[-1]["name"])]}
    (told,) = said(*jobs, split)
    assert "emits ticks, and cryo_ingest takes one block range" in told


SCHEDULE = {"activation": "source", "source": {"kind": "cron", "schedule": "0 3 * * *"}}


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("export.yaml", "gas_used"),
        ("scheduled.yaml", "gas_used"),
        ("checked.yaml", "gas_used"),
        # Of the parameters of an event that the job before it decodes.
        ("decode.yaml", "value_string"),
    ],
)
def test_the_sql_of_the_examples_fits_the_chain(name: str, column: str) -> None:
    known = Known({table: chain_columns(table) for table in TABLES})
    text = (EXAMPLES / name).read_text()
    check_file(text, known=known)
    with pytest.raises(DagErrors, match="1 errors"):
        check_file(text.replace(column, "gas_usd"), known=known)
