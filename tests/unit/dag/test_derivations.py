"""What the columns of a DAG's outputs are made of, as far as its file tells."""

from __future__ import annotations

import json
from typing import Any

from trace_platform.dag.check.check_dag import NOTHING_KNOWN, check_file
from trace_platform.dag.check.statements import Known
from trace_platform.sql.derivation import Derivation
from trace_platform.sql.relations import Column

SOURCE = {"name": "request", "activation": "source", "source": {"kind": "manual"}}
INGEST = {
    "operator": "cryo_ingest",
    "inputs": [{"from": {"job": "request"}}],
    "outputs": ["blocks", "transactions", "logs"],
    "config": {"chain_id": 1, "rpc_pool": "mainnet"},
}
LOGS = {"from": {"job": "ingest", "output": "logs"}}


def derivations(known: Known = NOTHING_KNOWN, **jobs: dict[str, Any]) -> dict[str, Derivation]:
    rest = {"activation": "reactive", "runtime": "ecs_platform"}
    listed = [{"name": name, **rest, **job} for name, job in {"ingest": INGEST, **jobs}.items()]
    checked = check_file(json.dumps({"name": "d", "jobs": [SOURCE, *listed]}), known=known)
    return {f"{job}.{index}": found for (job, index), found in checked.derivations.items()}


def sql(statement: str, *inputs: dict[str, Any], **config: Any) -> dict[str, Any]:
    return {
        "operator": "sql_transform",
        "inputs": list(inputs) or [LOGS],
        "outputs": ["rows"],
        "config": {"mode": "map", "sql": statement, **config},
    }


def origins(found: Derivation) -> dict[str, list[str]]:
    return {
        column.name: [f"{each.source}.{each.column}" for each in column.origins]
        for column in found.columns
    }


def test_events_are_decoded_from_topics_and_data() -> None:
    found = derivations(
        decode={
            "operator": "log_decode",
            "inputs": [LOGS],
            "outputs": ["erc20_transfer", "erc20_approval", "undecoded"],
            "config": {"abis": ["erc20"]},
        }
    )
    transfer = origins(found["decode.0"])
    assert transfer["from"] == ["0.topic1"]
    assert transfer["to"] == ["0.topic2"]
    assert transfer["value_string"] == transfer["value_f64"] == ["0.data"]
    assert transfer["address"] == ["0.address"]
    assert transfer["abi"] == []
    assert origins(found["decode.2"])["topic3"] == ["0.topic3"]
    types = {column.name: column.type for column in found["decode.0"].columns}
    assert (types["from"], types["value_string"]) == ("BLOB", "VARCHAR")


def test_calls_are_decoded_from_inputs() -> None:
    for calls, read, table in (
        ("transactions", "input", "transactions"),
        ("traces", "action_input", "logs"),
    ):
        found = derivations(
            decode={
                "operator": "call_decode",
                "inputs": [{"from": {"job": "ingest", "output": table}}],
                "outputs": ["transfer", "undecoded"],
                "config": {"calls": calls, "functions": ["transfer(address to, uint256 amount)"]},
            }
        )
        made = origins(found["decode.0"])
        assert made["amount_string"] == [f"0.{read}"], calls
        assert made["from_address"] == [
            "0.action_from" if calls == "traces" else "0.from_address"
        ], calls


def test_compacted_files_have_the_columns_that_are_read() -> None:
    found = derivations(
        compact={
            "operator": "parquet_compact",
            "inputs": [{"from": {"job": "request"}}, {**LOGS, "trigger": False}],
            "outputs": ["logs"],
        }
    )
    assert origins(found["compact.0"])["topic0"] == ["1.topic0"]


def test_statements_name_the_input_whatever_they_call_it() -> None:
    for name in ("logs", "input_1"):
        found = derivations(
            pick=sql(
                f"select l.address, b.timestamp from {name} l join blocks b using (block_number)",
                {"from": {"job": "ingest", "output": "blocks"}},
                LOGS,
            )
        )["pick.0"]
        assert origins(found) == {"address": ["1.address"], "timestamp": ["0.timestamp"]}, name
        assert [f"{o.source}.{o.column}" for o in found.rows_from] == [
            "0.block_number", "1.block_number",
        ], name  # fmt: skip


def test_a_fold_has_its_keys_and_what_it_adds_up() -> None:
    fold = {"by": ["address"], "values": {"logs": "count()", "last": "last(data)"}}
    found = derivations(
        totals=sql("select address, block_number, data from logs", mode="fold", fold=fold)
    )["totals.0"]
    assert origins(found) == {"address": ["0.address"], "logs": [], "last": ["0.data"]}
    assert [each.column for each in found.rows_from] == ["address"]


def test_an_export_is_made_of_what_its_statement_reads() -> None:
    statement = """
        select a.address, sum(a.block_number) as total, any_value(b.gas_used) as gas
          from (select * from input_0) a left join input_1 b on a.block_number = b.block_number
         where a.block_number between $start and $end group by all"""
    found = derivations(
        export={
            "operator": "query_export",
            "inputs": [LOGS, {"from": {"job": "ingest", "output": "blocks"}}],
            "outputs": ["result"],
            "config": {"sql": statement},
        }
    )["export.0"]
    assert origins(found) == {
        "address": ["0.address"], "total": ["0.block_number"], "gas": ["1.gas_used"],
    }  # fmt: skip


def test_an_export_of_what_nobody_knows_yet_is_followed_where_it_names_its_columns() -> None:
    def export(statement: str) -> dict[str, Any]:
        return {
            "operator": "query_export",
            "inputs": [{"from": {"dataset": "prices"}}],
            "outputs": ["result"],
            "config": {"sql": statement},
        }

    found = derivations(export=export("select token, max(usd) as most from prices group by 1"))
    assert origins(found["export.0"]) == {"token": ["0.token"], "most": ["0.usd"]}
    for statement in ("select * from prices", "select token, max(usd) from prices group by 1"):
        assert derivations(export=export(statement)) == {}, statement


def test_columns_that_the_instance_knows_make_a_star_known() -> None:
    job = sql("select * from prices", {"from": {"dataset": "prices"}})
    assert "pick.0" not in derivations(pick=job)
    known = Known({"prices": [Column("token", "BLOB"), Column("usd", "DOUBLE")]})
    assert origins(derivations(known, pick=job)["pick.0"]) == {
        "token": ["0.token"], "usd": ["0.usd"],
    }  # fmt: skip


def test_what_decides_the_rows_of_a_job_is_part_of_their_meaning() -> None:
    statement = "select address from logs where block_number > :least"
    before = derivations(pick=sql(statement, params={"least": 1}))["pick.0"]
    other_rows = {
        "a parameter": sql(statement, params={"least": 2}),
        "a filter": sql(statement, {**LOGS, "where": {"address": "0x00"}}, params={"least": 1}),
        "the mode": sql(statement, params={"least": 1}, mode="full"),
    }
    for name, job in other_rows.items():
        found = derivations(pick=job)["pick.0"]
        assert found.rows_meaning != before.rows_meaning, name
        assert found.columns == before.columns, name
    same = derivations(pick=sql(statement.replace("logs", "input_0"), params={"least": 1}))
    assert same["pick.0"] == before
