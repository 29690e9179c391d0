"""Every column of every row against a slow reading of the node's own answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Ingest
from tests.support import busy_chain
from tests.support.anvil import Anvil, anvil
from tests.support.ingest_tables import ingest_tables
from tests.support.slow_rows import SlowRows, assert_same
from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.evm.schema import TABLES

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def node() -> Iterator[Anvil]:
    with anvil(*busy_chain.OPTIONS) as running:
        busy_chain.build(running)
        yield running


@pytest.fixture(scope="module")
def blocks(node: Anvil) -> BlockRange:
    return BlockRange(0, int(node.call("eth_blockNumber"), 16))


def test_rows_equal_the_nodes_own_answers(node: Anvil, blocks: BlockRange, ingest: Ingest) -> None:
    found = ingest_tables(ingest, node.url, blocks, tuple(TABLES), batch_blocks=2)
    expected = SlowRows(node.call, blocks)
    for table in TABLES:
        assert_same(found[table], expected[table], table)


def test_the_chain_holds_what_it_is_meant_to(node: Anvil, blocks: BlockRange) -> None:
    expected = SlowRows(node.call, blocks)
    rows, logs, traces = expected["transactions"], expected["logs"], expected["traces"]
    assert {row["transaction_type"] for row in rows} == {0, 1, 2, 3, 4}
    assert {row["success"] for row in rows} == {True, False}
    assert any(row["to_address"] is None for row in rows)
    assert any(row["value_string"] == str(2**256 - 1) for row in rows)
    assert any(row["topic0"] is None for row in logs)
    assert any(row["topic3"] == b"\xff" * 32 for row in logs)
    assert any(row["data"] == b"" for row in logs)
    assert any(row["blob_gas_used"] for row in expected["blocks"])
    assert any(row["transaction_count"] == 0 for row in expected["blocks"])
    assert {row["action_type"] for row in traces} == {"call", "create", "suicide"}
    kinds = {None, "call", "delegate_call", "static_call"}
    assert {row["action_call_type"] for row in traces} == kinds
    assert "0_5" in {row["trace_address"] for row in traces}
    assert any(row["error"] for row in traces)


# Of the four the one whose rows take most to read.
@pytest.mark.parametrize(
    "table",
    [pytest.param(table, marks=[] if table == "traces" else pytest.mark.long) for table in TABLES],
)
def test_the_evm_source_gives_the_same_rows(
    table: str, node: Anvil, blocks: BlockRange, ingest: Ingest
) -> None:
    from trace_platform.operators.evm.source import EvmSource

    with ingest.runtime.task_thread("source") as spark:
        session = spark()
        EvmSource.register(session)
        options = {"url": node.url, "start": blocks.start, "end": blocks.end, "batch_blocks": 3}
        frame = session.read.format("evm").options(**options, table=table).load()
        found = frame.toArrow()
        last = frame.where("block_number >= 3 and block_number < 5").toArrow()
        none = frame.where("block_number > 1000").toArrow()
    expected = SlowRows(node.call, blocks)[table]
    order = ("block_number", "transaction_index", "log_index", "trace_address")
    by = [(column, "ascending") for column in order if column in found.schema.names]
    assert_same(found.sort_by(by), expected, table)
    assert_same(last.sort_by(by), [r for r in expected if 3 <= r["block_number"] < 5], table)
    assert none.num_rows == 0


def test_the_files_answer_in_spark_as_in_arrow(
    node: Anvil, blocks: BlockRange, ingest: Ingest
) -> None:
    task = ingest.task(node.url, blocks)
    result = ingest.run_task(task)
    for index, output in enumerate(task.outputs):
        folder = Path(task.store.filesystem(output.prefix)[1])
        with ingest.runtime.task_thread("read") as spark:
            seen = spark().read.parquet(str(folder)).toArrow()
        expected = ingest.read(task, index, result)
        assert sorted(map(repr, seen.to_pylist())) == sorted(map(repr, expected.to_pylist()))
