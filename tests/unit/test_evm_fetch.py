from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scripted_rpc import RpcError, ScriptedRpc, scripted_rpc
from tests.support.tiny_chain import CHAIN_ID, TinyChain, address, digest
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import MalformedBlock, RpcUnreachable, TraceError
from trace_platform.operators.evm import fetch
from trace_platform.operators.evm.fetch import RangeFetcher
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.evm.schema import BLOCKS, LOGS, TRANSACTIONS


def tables(node: ScriptedRpc, blocks: BlockRange, **options: Any) -> dict[str, pa.Table]:
    client = RpcClient(node.url, backoff_s=())
    try:
        chunks = list(RangeFetcher(client, CHAIN_ID, **options).chunks(blocks))
    finally:
        client.close()
    return {
        "blocks": pa.Table.from_batches([c.blocks for c in chunks], BLOCKS),
        "transactions": pa.Table.from_batches([c.transactions for c in chunks], TRANSACTIONS),
        "logs": pa.Table.from_batches([c.logs for c in chunks], LOGS),
    }


@pytest.mark.parametrize("batch_blocks", [1, 3, 50])
@pytest.mark.parametrize("rows_per_chunk", [1, 5, 10_000])
def test_a_range_is_read_whole_and_in_order(
    batch_blocks: int, rows_per_chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_ROWS_PER_CHUNK", rows_per_chunk)
    chain = TinyChain(n_blocks=11, n_transactions=3)
    with scripted_rpc(chain.answer) as node:
        found = tables(node, BlockRange(2, 10), batch_blocks=batch_blocks)
    for table in found.values():
        table.validate(full=True)
    assert found["blocks"]["block_number"].to_pylist() == list(range(2, 11))
    assert found["transactions"]["block_number"].to_pylist() == [
        number for number in range(2, 11) for _ in range(3)
    ]
    assert found["transactions"]["transaction_index"].to_pylist() == [0, 1, 2] * 9
    assert found["logs"]["log_index"].to_pylist() == [0, 1, 2] * 9
    of_block = {
        row["block_number"]: (row["block_hash"], row["parent_hash"])
        for row in found["blocks"].to_pylist()
    }
    for row in found["transactions"].to_pylist() + found["logs"].to_pylist():
        assert (row["block_hash"], row["parent_hash"]) == of_block[row["block_number"]]
        assert row["chain_id"] == CHAIN_ID


def test_genesis_and_empty_blocks_give_tables_without_rows() -> None:
    with scripted_rpc(TinyChain(n_blocks=1).answer) as node:
        found = tables(node, BlockRange(0, 0))
    assert found["blocks"].num_rows == 1
    assert found["transactions"].num_rows == found["logs"].num_rows == 0


def test_null_receipts_of_an_empty_block_are_fine() -> None:
    chain = TinyChain(n_blocks=1)
    chain.receipts[0] = None
    with scripted_rpc(chain.answer) as node:
        assert tables(node, BlockRange(0, 0))["blocks"].num_rows == 1


def test_old_receipts_creations_and_missing_fields_are_null() -> None:
    chain = TinyChain(n_blocks=2, n_transactions=2)
    old = chain.block(1)["transactions"][0]
    for name in ("type", "maxFeePerGas", "maxPriorityFeePerGas"):
        del old[name]
    old["to"] = None
    del chain.receipts_of(1)[0]["status"]
    chain.receipts_of(1)[1]["status"] = "0x0"
    del chain.block(1)["baseFeePerGas"]
    with scripted_rpc(chain.answer) as node:
        found = tables(node, BlockRange(1, 1))
    first, second = found["transactions"].to_pylist()
    assert first["success"] is None
    assert second["success"] is False
    assert first["to_address"] is None
    assert second["to_address"] == bytes.fromhex(address(101)[2:])
    assert first["transaction_type"] == 0
    assert first["max_fee_per_gas"] is None
    assert found["blocks"]["base_fee_per_gas"].to_pylist() == [None]
    assert found["logs"]["topic0"].to_pylist()[0] is None


def _bend_number(chain: TinyChain) -> None:
    chain.block(3)["number"] = "0x4"


def _bend_parent(chain: TinyChain) -> None:
    chain.block(3)["parentHash"] = digest("another")


def _bend_receipt_block(chain: TinyChain) -> None:
    chain.receipts_of(3)[0]["blockHash"] = digest("another")


def _cut_receipts(chain: TinyChain) -> None:
    chain.receipts_of(3).pop()


def _drop_receipts(chain: TinyChain) -> None:
    chain.receipts[3] = None


def _swap_receipts(chain: TinyChain) -> None:
    chain.receipts_of(3).reverse()


def _swap_transactions(chain: TinyChain) -> None:
    chain.block(3)["transactions"].reverse()
    chain.receipts_of(3).reverse()


def _bend_hex(chain: TinyChain) -> None:
    chain.block(3)["transactions"][0]["input"] = "0xzz"


def _cut_hash(chain: TinyChain) -> None:
    chain.block(3)["stateRoot"] = "0x1234"


def _cut_topic(chain: TinyChain) -> None:
    chain.receipts_of(3)[1]["logs"][0]["topics"] = ["0xdd"]


def _drop_field(chain: TinyChain) -> None:
    del chain.block(3)["miner"]


def _change_type(chain: TinyChain) -> None:
    chain.block(3)["timestamp"] = 12


def _only_hashes(chain: TinyChain) -> None:
    chain.block(3)["transactions"] = [t["hash"] for t in chain.block(3)["transactions"]]


def _overflow(chain: TinyChain) -> None:
    chain.block(3)["transactions"][0]["value"] = hex(2**256)


@pytest.mark.parametrize(
    ("bend", "says"),
    [
        (_bend_number, "asked for block 3, got block 0x4"),
        (_bend_parent, "block 3 is not a child of the block before it"),
        (_bend_receipt_block, "a receipt of block 3 is of another block"),
        (_cut_receipts, "block 3 has 2 transactions, 1 receipts"),
        (_drop_receipts, "block 3 has 2 transactions, 0 receipts"),
        (_swap_receipts, "the receipts of block 3 are of other transactions"),
        (_swap_transactions, "the transactions of block 3 are out of order"),
        (_bend_hex, "blocks 0 to 9 hold a bad value"),
        (_cut_hash, "not 32 bytes"),
        (_cut_topic, "not 32 bytes"),
        (_drop_field, "missing required field `miner`"),
        (_change_type, "Expected `str`, got `int`"),
        (_only_hashes, "Expected `object`, got `str`"),
        (_overflow, "does not fit 256 bits"),
    ],
)
def test_a_malformed_answer_is_refused(bend: Callable[[TinyChain], None], says: str) -> None:
    chain = TinyChain(n_blocks=10)
    bend(chain)
    with scripted_rpc(chain.answer) as node, pytest.raises(MalformedBlock) as caught:
        tables(node, BlockRange(0, 9))
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.retryable


def test_a_wrong_parent_is_seen_across_batches_too() -> None:
    chain = TinyChain(n_blocks=10)
    _bend_parent(chain)
    with scripted_rpc(chain.answer) as node, pytest.raises(MalformedBlock, match="block 3"):
        tables(node, BlockRange(0, 9), batch_blocks=3)


def test_a_block_beyond_the_head_is_named_and_may_be_tried_again() -> None:
    node_of_five = scripted_rpc(TinyChain(n_blocks=5).answer)
    with node_of_five as node, pytest.raises(RpcUnreachable, match="not have block 5") as caught:
        tables(node, BlockRange(3, 9))
    assert caught.value.facts == {"block": 5}
    assert caught.value.retryable


def test_receipts_are_asked_one_by_one_where_there_is_no_block_method() -> None:
    chain = TinyChain(n_blocks=6, n_transactions=3)

    def answer(method: str, params: list[Any]) -> Any:
        if method == "eth_getBlockReceipts":
            return RpcError(-32601, "the method eth_getBlockReceipts does not exist")
        return chain.answer(method, params)

    with scripted_rpc(answer) as node:
        slow = tables(node, BlockRange(0, 5), batch_blocks=2, in_flight=1)
        assert node.calls.count("eth_getTransactionReceipt") == 15
        assert node.calls.count("eth_getBlockReceipts") == 2
    with scripted_rpc(chain.answer) as node:
        assert slow == tables(node, BlockRange(0, 5))


def test_a_missing_receipt_is_not_an_empty_one() -> None:
    def answer(method: str, params: list[Any]) -> Any:
        if method == "eth_getBlockReceipts":
            return RpcError(-32601, "no")
        return None if method == "eth_getTransactionReceipt" else chain.answer(method, params)

    chain = TinyChain(n_blocks=2)
    with scripted_rpc(answer) as node, pytest.raises(RpcUnreachable, match="receipt"):
        tables(node, BlockRange(0, 1))


def test_an_answer_that_is_too_large_is_asked_in_halves() -> None:
    chain = TinyChain(n_blocks=8)
    asked: list[int] = []

    def answer(method: str, params: list[Any]) -> Any:
        n_calls = len(node.calls) - sum(asked)
        if n_calls > 4:
            return RpcError(-32003, "response too large")
        return chain.answer(method, params)

    with scripted_rpc(answer) as node:
        reply = node.reply

        def counted(body: Any) -> Any:
            if isinstance(body, list):
                said = reply(body)
                asked.append(len(body))
                return said
            return reply(body)

        node.reply = counted  # type: ignore[method-assign]
        found = tables(node, BlockRange(0, 7), in_flight=1)
    assert found["blocks"]["block_number"].to_pylist() == list(range(8))
    assert asked == [16, 8, 4, 4, 8, 4, 4]


def test_one_block_that_is_too_large_is_named() -> None:
    says = RpcError(-32003, "response too large")
    with scripted_rpc(lambda *_: says) as node, pytest.raises(RpcUnreachable, match="for block 0"):
        tables(node, BlockRange(0, 3))


def test_a_refused_block_says_what_the_node_said() -> None:
    says = RpcError(-32000, "pruned")
    refusal = pytest.raises(RpcUnreachable, match="refuses block 0: pruned")
    with scripted_rpc(lambda *_: says) as node, refusal:
        tables(node, BlockRange(0, 3))


def test_the_garbage_collector_is_on_again_afterwards() -> None:
    with scripted_rpc(TinyChain().answer) as node:
        tables(node, BlockRange(0, 3))
        with pytest.raises(TraceError):
            tables(node, BlockRange(0, 99))
    assert gc.isenabled()
