"""What chains hold beside the ordinary, row by row against a slow reading of the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scripted_rpc import ScriptedRpc, scripted_rpc
from tests.support.slow_rows import SlowRows, assert_same
from tests.support.tiny_chain import CHAIN_ID, TinyChain, address, digest, reward
from trace_devchain.chain import DevChain
from trace_devchain.methods import METHODS
from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.evm.fetch import RangeFetcher
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.evm.schema import TABLES

TOP = 2**256 - 1


def fast_rows(node: ScriptedRpc, blocks: BlockRange, **options: Any) -> dict[str, pa.Table]:
    client = RpcClient(node.url, backoff_s=())
    try:
        fetcher = RangeFetcher(client, CHAIN_ID, tables=tuple(TABLES), **options)
        chunks = list(fetcher.chunks(blocks))
    finally:
        client.close()
    return {
        table: pa.Table.from_batches([getattr(c, table) for c in chunks], schema)
        for table, schema in TABLES.items()
    }


def compared(answer: Callable[[str, list[Any]], Any], blocks: BlockRange) -> SlowRows:
    """The slow rows, after the fast ones were found to be the same."""
    expected = SlowRows(lambda method, *params: answer(method, list(params)), blocks)
    with scripted_rpc(answer) as node:
        found = fast_rows(node, blocks)
    for table in TABLES:
        found[table].validate(full=True)
        assert_same(found[table], expected[table], table)
    return expected


def test_genesis_has_no_parent_and_is_not_traced() -> None:
    chain = TinyChain(n_blocks=2)

    def answer(method: str, params: list[Any]) -> Any:
        assert (method, params) != ("trace_block", ["0x0"])
        return chain.answer(method, params)

    rows = compared(answer, BlockRange(0, 1))
    assert rows["blocks"][0]["parent_hash"] == bytes(32)
    assert {row["block_number"] for row in rows["transactions"]} == {1}


def test_the_extremes_of_uint256() -> None:
    chain = TinyChain(n_blocks=2, n_transactions=4)
    for i, value in enumerate((0, 1, TOP, 2**255)):
        chain.block(1)["transactions"][i]["value"] = hex(value)
        chain.traces_of(1)[i]["action"]["value"] = hex(value)
    rows = compared(chain.answer, BlockRange(0, 1))
    assert rows["transactions"][2]["value_binary"] == b"\xff" * 32
    assert rows["traces"][2]["action_value"] == str(TOP)


def test_a_transaction_from_before_byzantium() -> None:
    """Its receipt has the state's root instead of a status; it has no type and no fee cap."""
    chain = TinyChain(n_blocks=3)
    for receipt in chain.receipts_of(1):
        del receipt["status"]
        receipt["root"] = digest("state after")
    for transaction in chain.block(1)["transactions"]:
        for name in ("type", "maxFeePerGas", "maxPriorityFeePerGas"):
            del transaction[name]
    del chain.block(1)["baseFeePerGas"]
    rows = compared(chain.answer, BlockRange(0, 2))
    assert [row["success"] for row in rows["transactions"]] == [None, None, True, True]
    assert rows["blocks"][1]["base_fee_per_gas"] is None


def test_a_block_with_uncles_and_rewards() -> None:
    chain = TinyChain(n_blocks=4)
    chain.block(2)["uncles"] = [digest("uncle", 0), digest("uncle", 1)]
    paid = reward(2)
    paid["action"]["rewardType"] = "uncle"
    chain.traces_of(2).extend([reward(2), paid])
    rows = compared(chain.answer, BlockRange(0, 3))
    assert [row["uncle_count"] for row in rows["blocks"]] == [0, 0, 2, 0]
    assert rows["blocks"][3]["parent_hash"] == rows["blocks"][2]["block_hash"]
    rewards = [row for row in rows["traces"] if row["action_type"] == "reward"]
    assert [row["action_reward_type"] for row in rewards] == ["reward", "uncle"]
    assert {row["transaction_hash"] for row in rewards} == {None}


def test_a_block_of_five_thousand_logs() -> None:
    chain = TinyChain(n_blocks=4, n_transactions=3)
    template = chain.receipts_of(2)[1]["logs"][0]
    shares = (range(4_990), range(4_990, 5_000), range(0))
    for receipt, share in zip(chain.receipts_of(2), shares, strict=True):
        receipt["logs"] = [
            {
                **template,
                "topics": [digest(n, t) for t in range(n % 5)],
                "data": "0x" + "ab" * (n % 70),
                "logIndex": hex(n),
                "transactionHash": receipt["transactionHash"],
            }
            for n in share
        ]
    rows = compared(chain.answer, BlockRange(0, 3))
    assert sum(row["block_number"] == 2 for row in rows["logs"]) == 5_000


def test_kinds_of_traces() -> None:
    chain = TinyChain(n_blocks=2, n_transactions=5)
    call, create, failed, gone, deep = chain.traces_of(1)
    call["action"]["callType"] = "callcode"
    create["type"] = "create"
    create["action"] = {"from": address(1), "gas": "0x5", "init": "0x60", "value": "0x0"}
    create["result"] = {"address": address(9), "code": "0x", "gasUsed": "0x1"}
    failed["result"], failed["error"] = None, "Out of gas"
    gone["type"] = "suicide"
    gone["action"] = {"address": address(3), "refundAddress": address(4), "balance": hex(TOP)}
    gone["result"] = None
    deep["traceAddress"], deep["subtraces"] = [0, 12, 3], 2
    deep["action"]["gas"] = hex(2**63 - 1)
    rows = compared(chain.answer, BlockRange(0, 1))
    assert [row["action_type"] for row in rows["traces"]] == [
        *("call", "create", "call", "suicide", "call")
    ]


def test_a_creation_names_its_contract_and_one_that_failed_none() -> None:
    chain = TinyChain(n_blocks=2, n_transactions=3)
    for transaction, receipt in zip(
        chain.block(1)["transactions"], chain.receipts_of(1), strict=True
    ):
        transaction["to"], receipt["contractAddress"] = None, address(0xC0DE)
    chain.receipts_of(1)[1]["status"] = "0x0"
    chain.receipts_of(1)[2]["contractAddress"] = None
    rows = compared(chain.answer, BlockRange(0, 1))["transactions"]
    made = bytes.fromhex(address(0xC0DE)[2:])
    assert [row["contract_address"] for row in rows] == [made, None, None]


def test_amounts_beyond_int64_do_not_stop_the_ingest_and_are_told_exactly() -> None:
    """Every one of them: what one chain has as its gas limit another has as its fee."""
    chain, above = TinyChain(n_blocks=3), [hex(2**63 + n) for n in range(14)]
    block, transaction = chain.block(1), chain.block(1)["transactions"][0]
    trace = chain.traces_of(1)[0]
    block |= dict(zip(("gasUsed", "gasLimit", "baseFeePerGas", "size"), above, strict=False))
    block |= {"blobGasUsed": above[4], "excessBlobGas": above[5]}
    transaction |= dict(zip(("nonce", "gas", "gasPrice"), above[6:], strict=False))
    transaction |= {"maxFeePerGas": hex(TOP), "maxPriorityFeePerGas": above[10]}
    chain.receipts_of(1)[0]["gasUsed"] = above[11]
    trace["action"]["gas"], trace["result"]["gasUsed"] = above[12], above[13]
    rows = compared(chain.answer, BlockRange(0, 2))
    told = [json.loads(rows[table][at]["above_int64"]) for table, at in _FIRST_OF_BLOCK_1]
    assert [len(each) for each in told] == [6, 6, 2]
    assert told[1]["gas_price"] == str(2**63 + 8)
    assert told[1]["max_fee_per_gas"] == str(TOP)
    others = [row for table, at in _FIRST_OF_BLOCK_1 for row in rows[table][at + 1 :]]
    assert {row["above_int64"] for row in others} == {None}


_FIRST_OF_BLOCK_1 = (("blocks", 1), ("transactions", 0), ("traces", 0))


def test_logs_that_are_counted_by_transaction_are_as_the_chain_counts_them() -> None:
    chain = TinyChain(n_blocks=3, n_transactions=3)
    logs = [receipt["logs"] for receipt in chain.receipts_of(1)]
    logs[0].append({**logs[0][0], "logIndex": "0x1"})
    logs[1].append({**logs[1][0], "logIndex": "0x2"})
    for of_transaction in logs:
        for i, log in enumerate(of_transaction):
            log["logIndex"] = hex(i)
    rows = compared(chain.answer, BlockRange(0, 2))
    assert [row["log_index"] for row in rows["logs"]] == [0, 1, 0, 1, 0, 0, 1, 2]
    assert [row["transaction_index"] for row in rows["logs"]] == [0, 0, 1, 1, 2, 0, 1, 2]


def test_a_call_that_moves_no_value_may_leave_it_out() -> None:
    chain = TinyChain(n_blocks=2)
    for trace, call_type in zip(chain.traces_of(1), ("delegatecall", "staticcall"), strict=True):
        trace["action"]["callType"] = call_type
        del trace["action"]["value"]
    rows = compared(chain.answer, BlockRange(0, 1))
    assert [row["action_value"] for row in rows["traces"]] == ["0", "0"]


def devchain_answer(chain: DevChain) -> Callable[[str, list[Any]], Any]:
    return lambda method, params: json.loads(METHODS[method](chain, params))


@pytest.mark.parametrize("batch_blocks", [1, 7, 50])
def test_a_chain_of_every_kind_of_transaction(batch_blocks: int) -> None:
    answer = devchain_answer(DevChain(blocks=40, txs=25))
    blocks = BlockRange(0, 40)
    expected = SlowRows(lambda method, *params: answer(method, list(params)), blocks)
    with scripted_rpc(answer) as node:
        found = fast_rows(node, blocks, batch_blocks=batch_blocks)
    for table in TABLES:
        assert_same(found[table], expected[table], table)
    rows = expected["transactions"]
    assert {row["transaction_type"] for row in rows} == {0, 1, 2, 3, 4}
    assert {row["success"] for row in rows} == {True, False}
    assert any(row["to_address"] is None for row in rows)
    assert any(row["topic0"] is None for row in expected["logs"])
    assert any(row["blob_gas_used"] for row in expected["blocks"])
    assert any(row["transaction_count"] == 0 for row in expected["blocks"][1:])
    # Blocks with withdrawals and without have different roots.
    roots = [row["withdrawals_root"] for row in expected["blocks"]]
    assert None not in roots
    assert 1 < len(set(roots)) < len(roots)
    assert {row["action_type"] for row in expected["traces"]} == {"call", "create"}
    assert any(row["subtraces"] for row in expected["traces"])


@pytest.mark.parametrize("tables", [("blocks",), ("traces",), ("blocks", "traces")])
def test_receipts_are_not_asked_for_where_no_table_needs_them(tables: tuple[str, ...]) -> None:
    with scripted_rpc(TinyChain(n_blocks=6).answer) as node:
        client = RpcClient(node.url, backoff_s=())
        chunks = list(RangeFetcher(client, CHAIN_ID, tables=tables).chunks(BlockRange(0, 5)))
        client.close()
        assert "eth_getBlockReceipts" not in node.calls
        assert ("trace_block" in node.calls) == ("traces" in tables)
    assert sum(chunk.blocks.num_rows for chunk in chunks) == 6
    assert sum(chunk.traces.num_rows for chunk in chunks) == 10 * ("traces" in tables)
    assert sum(chunk.transactions.num_rows + chunk.logs.num_rows for chunk in chunks) == 0
