"""The rows of every table as a node tells them, one value at a time: what fast code must equal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.evm.schema import TABLES

Row = dict[str, Any]
_INT64_MAX = 2**63 - 1
_WORDS = {
    "block": "reward",
    "callcode": "call_code",
    "delegatecall": "delegate_call",
    "staticcall": "static_call",
}


def assert_same(found: pa.Table, expected: list[Row], table: str) -> None:
    assert found.schema.names == TABLES[table].names
    rows = found.to_pylist()
    assert len(rows) == len(expected)
    for row, right in zip(rows, expected, strict=True):
        assert row == right


class SlowRows(dict[str, list[Row]]):
    """By table. Receipts are asked for one by one."""

    def __init__(self, call: Callable[..., Any], blocks: BlockRange) -> None:
        super().__init__({table: [] for table in TABLES})
        for number in range(blocks.start, blocks.end + 1):
            block = call("eth_getBlockByNumber", hex(number), True)
            self["blocks"].append(_block_row(block))
            for transaction in block["transactions"]:
                receipt = call("eth_getTransactionReceipt", transaction["hash"])
                self["transactions"].append(_transaction_row(block, transaction, receipt))
                self["logs"] += [_log_row(block, transaction, log) for log in receipt["logs"]]
            traces = call("trace_block", hex(number)) if number else []
            self["traces"] += [_trace_row(block, trace) for trace in traces]


def _hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text[2:])


def _int(text: str | None) -> int | None:
    return None if text is None else int(text, 16)


def _capped(amounts: dict[str, str | None]) -> Row:
    """Each stops at the largest int64; those above it are told exactly, all together."""
    numbers = {column: _int(text) for column, text in amounts.items()}
    above = {c: str(n) for c, n in numbers.items() if n is not None and n > _INT64_MAX}
    kept = {c: n if n is None else min(n, _INT64_MAX) for c, n in numbers.items()}
    return kept | {"above_int64": json.dumps(above) if above else None}


def _block_row(block: Row) -> Row:
    return {
        "block_hash": _hex(block["hash"]),
        "author": _hex(block["miner"]),
        "block_number": _int(block["number"]),
        "extra_data": _hex(block["extraData"]),
        "timestamp": _int(block["timestamp"]),
        "chain_id": 31337,
        "parent_hash": _hex(block["parentHash"]),
        "state_root": _hex(block["stateRoot"]),
        "transactions_root": _hex(block["transactionsRoot"]),
        "receipts_root": _hex(block["receiptsRoot"]),
        "transaction_count": len(block["transactions"]),
        "withdrawals_root": _hex(block.get("withdrawalsRoot")),
        "uncle_count": len(block["uncles"]),
        "logs_bloom": _hex(block.get("logsBloom")),
        **_capped(
            {
                "gas_used": block["gasUsed"],
                "base_fee_per_gas": block.get("baseFeePerGas"),
                "gas_limit": block["gasLimit"],
                "size": block["size"],
                "blob_gas_used": block.get("blobGasUsed"),
                "excess_blob_gas": block.get("excessBlobGas"),
            }
        ),
    }


def _transaction_row(block: Row, transaction: Row, receipt: Row) -> Row:
    value = int(transaction["value"], 16)
    data = bytes.fromhex(transaction["input"][2:])
    return {
        "block_number": _int(block["number"]),
        "transaction_index": _int(transaction["transactionIndex"]),
        "transaction_hash": _hex(transaction["hash"]),
        "from_address": _hex(transaction["from"]),
        "to_address": _hex(transaction["to"]),
        "value_binary": value.to_bytes(32, "big"),
        "value_string": str(value),
        "value_f64": float(value),
        "input": data,
        "transaction_type": _int(transaction.get("type", "0x0")),
        "success": receipt["status"] == "0x1" if "status" in receipt else None,
        "n_input_bytes": len(data),
        "n_input_zero_bytes": data.count(0),
        "n_input_nonzero_bytes": len(data) - data.count(0),
        "chain_id": 31337,
        "block_hash": _hex(block["hash"]),
        "parent_hash": _hex(block["parentHash"]),
        "timestamp": _int(block["timestamp"]),
        "contract_address": _created(receipt),
        **_capped(
            {
                "nonce": transaction["nonce"],
                "gas_limit": transaction["gas"],
                "gas_used": receipt["gasUsed"],
                "gas_price": transaction.get("gasPrice"),
                "max_priority_fee_per_gas": transaction.get("maxPriorityFeePerGas"),
                "max_fee_per_gas": transaction.get("maxFeePerGas"),
            }
        ),
    }


def _log_row(block: Row, transaction: Row, log: Row) -> Row:
    topics = [_hex(topic) for topic in log["topics"]] + [None] * 4
    return {
        "block_number": _int(block["number"]),
        "transaction_index": _int(transaction["transactionIndex"]),
        "log_index": _int(log["logIndex"]),
        "transaction_hash": _hex(log["transactionHash"]),
        "address": _hex(log["address"]),
        **{f"topic{i}": topics[i] for i in range(4)},
        "data": _hex(log["data"]),
        "chain_id": 31337,
        "block_hash": _hex(block["hash"]),
        "parent_hash": _hex(block["parentHash"]),
        "timestamp": _int(block["timestamp"]),
    }


def _created(receipt: Row) -> bytes | None:
    """Nodes name the address of a creation that failed, too."""
    return None if receipt.get("status") == "0x0" else _hex(receipt.get("contractAddress"))


def _trace_row(block: Row, trace: Row) -> Row:
    action, result = trace["action"], trace.get("result") or {}
    sender = {"suicide": "address", "reward": "author"}.get(trace["type"], "from")
    value = int(action.get("balance" if trace["type"] == "suicide" else "value", "0x0"), 16)
    call_type, reward_type = action.get("callType"), action.get("rewardType")
    return {
        "action_from": _hex(action[sender]),
        "action_to": _hex(action.get("refundAddress", action.get("to"))),
        "action_value": str(value),
        "action_input": _hex(action.get("input")),
        "action_call_type": _WORDS.get(call_type, call_type),
        "action_init": _hex(action.get("init")),
        "action_reward_type": _WORDS.get(reward_type, reward_type),
        "action_type": trace["type"],
        "result_output": _hex(result.get("output")),
        "result_code": _hex(result.get("code")),
        "result_address": _hex(result.get("address")),
        "trace_address": "_".join(str(step) for step in trace["traceAddress"]),
        "subtraces": trace["subtraces"],
        "transaction_index": trace["transactionPosition"],
        "transaction_hash": _hex(trace["transactionHash"]),
        "block_number": _int(block["number"]),
        "block_hash": _hex(block["hash"]),
        "error": trace.get("error"),
        "chain_id": 31337,
        "parent_hash": _hex(block["parentHash"]),
        "action_value_binary": value.to_bytes(32, "big"),
        "action_value_f64": float(value),
        "timestamp": _int(block["timestamp"]),
        **_capped(
            {
                "action_gas": action.get("gas"),
                "result_gas_used": result.get("gasUsed"),
            }
        ),
    }
