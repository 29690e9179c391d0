"""Every column of every row against a slow reading of the node's own answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.conftest import Ingest
from tests.support import busy_chain
from tests.support.anvil import Anvil, anvil
from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.evm.schema import TABLES

pytestmark = pytest.mark.spark

Row = dict[str, Any]


@pytest.fixture(scope="module")
def node() -> Iterator[Anvil]:
    with anvil(*busy_chain.OPTIONS) as running:
        busy_chain.build(running)
        yield running


@pytest.fixture(scope="module")
def blocks(node: Anvil) -> BlockRange:
    return BlockRange(0, int(node.call("eth_blockNumber"), 16))


def test_rows_equal_the_nodes_own_answers(node: Anvil, blocks: BlockRange, ingest: Ingest) -> None:
    found = ingest.run(node.url, blocks, batch_blocks=2)
    expected = Oracle(node, blocks)
    assert_same(found["blocks"], expected.blocks, "blocks")
    assert_same(found["transactions"], expected.transactions, "transactions")
    assert_same(found["logs"], expected.logs, "logs")


def test_the_chain_holds_what_it_is_meant_to(node: Anvil, blocks: BlockRange) -> None:
    expected = Oracle(node, blocks)
    rows = expected.transactions
    assert {row["transaction_type"] for row in rows} == {0, 1, 2, 4}
    assert {row["success"] for row in rows} == {True, False}
    assert any(row["to_address"] is None for row in rows)
    assert any(row["value_string"] == str(2**256 - 1) for row in rows)
    assert any(row["topic0"] is None for row in expected.logs)
    assert any(row["topic3"] == b"\xff" * 32 for row in expected.logs)
    assert any(row["data"] == b"" for row in expected.logs)


@pytest.mark.parametrize("table", list(TABLES))
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
    expected = getattr(Oracle(node, blocks), table)
    order = [("block_number", "ascending")]
    order += [
        (c, "ascending") for c in ("transaction_index", "log_index") if c in found.schema.names
    ]
    assert_same(found.sort_by(order), expected, table)
    assert_same(last.sort_by(order), [r for r in expected if 3 <= r["block_number"] < 5], table)
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


def assert_same(found: pa.Table, expected: list[Row], table: str) -> None:
    assert found.schema.names == TABLES[table].names
    rows = found.to_pylist()
    assert len(rows) == len(expected)
    for row, right in zip(rows, expected, strict=True):
        assert row == right


class Oracle:
    """The rows as the node tells them, one value at a time."""

    def __init__(self, node: Anvil, blocks: BlockRange) -> None:
        self.blocks: list[Row] = []
        self.transactions: list[Row] = []
        self.logs: list[Row] = []
        for number in range(blocks.start, blocks.end + 1):
            block = node.call("eth_getBlockByNumber", hex(number), True)
            self.blocks.append(_block_row(block))
            for transaction in block["transactions"]:
                receipt = node.call("eth_getTransactionReceipt", transaction["hash"])
                self.transactions.append(_transaction_row(block, transaction, receipt))
                self.logs += [_log_row(block, log) for log in receipt["logs"]]


def _hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text[2:])


def _int(text: str | None) -> int | None:
    return None if text is None else int(text, 16)


def _block_row(block: Row) -> Row:
    return {
        "block_hash": _hex(block["hash"]),
        "author": _hex(block["miner"]),
        "block_number": _int(block["number"]),
        "gas_used": _int(block["gasUsed"]),
        "extra_data": _hex(block["extraData"]),
        "timestamp": _int(block["timestamp"]),
        "base_fee_per_gas": _int(block["baseFeePerGas"]),
        "chain_id": 31337,
        "parent_hash": _hex(block["parentHash"]),
        "state_root": _hex(block["stateRoot"]),
        "transactions_root": _hex(block["transactionsRoot"]),
        "receipts_root": _hex(block["receiptsRoot"]),
        "gas_limit": _int(block["gasLimit"]),
        "size": _int(block["size"]),
        "transaction_count": len(block["transactions"]),
        "blob_gas_used": _int(block.get("blobGasUsed")),
        "excess_blob_gas": _int(block.get("excessBlobGas")),
    }


def _transaction_row(block: Row, transaction: Row, receipt: Row) -> Row:
    value = int(transaction["value"], 16)
    data = bytes.fromhex(transaction["input"][2:])
    return {
        "block_number": _int(block["number"]),
        "transaction_index": _int(transaction["transactionIndex"]),
        "transaction_hash": _hex(transaction["hash"]),
        "nonce": _int(transaction["nonce"]),
        "from_address": _hex(transaction["from"]),
        "to_address": _hex(transaction["to"]),
        "value_binary": value.to_bytes(32, "big"),
        "value_string": str(value),
        "value_f64": float(value),
        "input": data,
        "gas_limit": _int(transaction["gas"]),
        "gas_used": _int(receipt["gasUsed"]),
        "gas_price": _int(transaction["gasPrice"]),
        "transaction_type": _int(transaction["type"]),
        "max_priority_fee_per_gas": _int(transaction.get("maxPriorityFeePerGas")),
        "max_fee_per_gas": _int(transaction.get("maxFeePerGas")),
        "success": receipt["status"] == "0x1",
        "n_input_bytes": len(data),
        "n_input_zero_bytes": data.count(0),
        "n_input_nonzero_bytes": len(data) - data.count(0),
        "chain_id": 31337,
        "block_hash": _hex(block["hash"]),
        "parent_hash": _hex(block["parentHash"]),
    }


def _log_row(block: Row, log: Row) -> Row:
    topics = [_hex(topic) for topic in log["topics"]] + [None] * 4
    return {
        "block_number": _int(log["blockNumber"]),
        "transaction_index": _int(log["transactionIndex"]),
        "log_index": _int(log["logIndex"]),
        "transaction_hash": _hex(log["transactionHash"]),
        "address": _hex(log["address"]),
        **{f"topic{i}": topics[i] for i in range(4)},
        "data": _hex(log["data"]),
        "chain_id": 31337,
        "block_hash": _hex(log["blockHash"]),
        "parent_hash": _hex(block["parentHash"]),
    }
