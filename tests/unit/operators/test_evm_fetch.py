from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from tests.support.corpus import corpus
from tests.support.scripted_rpc import RpcError, ScriptedRpc, scripted_rpc
from tests.support.tiny_chain import CHAIN_ID, TinyChain, address, digest
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import (
    InvalidConfig,
    MalformedBlock,
    RpcUnreachable,
    TraceError,
)
from trace_platform.operators.evm import fetch, pace
from trace_platform.operators.evm.fetch import Chunk, RangeFetcher
from trace_platform.operators.evm.node import Node
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.evm.schema import BLOCKS, LOGS, TRANSACTIONS


@contextmanager
def fetching(node: ScriptedRpc, **options: Any) -> Iterator[RangeFetcher]:
    client = RpcClient(node.url, backoff_s=())
    try:
        yield RangeFetcher(client, CHAIN_ID, **options)
    finally:
        client.close()


def tables(
    node: ScriptedRpc, blocks: BlockRange, *, by_hash: bool = False, **options: Any
) -> dict[str, pa.Table]:
    with fetching(node, **options) as fetcher:
        return joined(fetcher.chunks(blocks, by_hash=by_hash))


def joined(found: Iterable[Chunk]) -> dict[str, pa.Table]:
    chunks = list(found)
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


def test_logs_without_a_bloom_are_fine() -> None:
    chain = TinyChain(n_blocks=2)
    chain.block(1)["logsBloom"] = "0x" + "00" * 256
    with scripted_rpc(chain.answer) as node:
        assert tables(node, BlockRange(1, 1))["logs"].num_rows == 2


@pytest.mark.parametrize("where", ["input", "log", "call", "create"])
def test_what_is_long_weighs_as_much_as_many_rows(where: str) -> None:
    """By it the next chunk is sized: memory is bounded whatever it is that is long."""
    chain = TinyChain(n_blocks=2, n_transactions=1)
    long = "0x" + "ab" * 500_000
    trace = chain.traces_of(1)[0]
    if where == "input":
        chain.block(1)["transactions"][0]["input"] = long
    elif where == "log":
        chain.receipts_of(1)[0]["logs"][0]["data"] = long
    elif where == "call":
        trace["action"]["input"] = trace["result"]["output"] = long
    else:
        trace["action"]["init"] = trace["result"]["code"] = long
    with scripted_rpc(chain.answer) as node:
        client = RpcClient(node.url)
        asked = Node(client)
        answers = asked.by_number([1])
        answers.traces = asked.traces([1])
        client.close()
    assert answers.rows >= 900


def _bend_bloom(chain: TinyChain) -> None:
    chain.block(3)["logsBloom"] = "0x" + "00" * 100 + "08" + "00" * 155
    for receipt in chain.receipts_of(3):
        receipt["logs"] = []


def _bend_number(chain: TinyChain) -> None:
    chain.block(3)["number"] = "0x4"


def _bend_parent(chain: TinyChain) -> None:
    chain.block(3)["parentHash"] = digest("another")


def _bend_receipt_block(chain: TinyChain) -> None:
    chain.receipts_of(3)[0]["blockHash"] = digest("another")


def _cut_receipts(chain: TinyChain) -> None:
    chain.receipts_of(3).pop()


def _empty_receipts(chain: TinyChain) -> None:
    chain.receipts[3] = []


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


def _overflow_int64(chain: TinyChain) -> None:
    chain.block(3)["timestamp"] = hex(2**63)


def _repeat_log_index(chain: TinyChain) -> None:
    logs = chain.receipts_of(3)[1]["logs"]
    logs.append(dict(logs[0]))


def _decimal_gas(chain: TinyChain) -> None:
    chain.block(3)["transactions"][1]["gas"] = "21000"


def _decimal_value(chain: TinyChain) -> None:
    chain.block(3)["transactions"][1]["value"] = "21000"


def _spaced_log_index(chain: TinyChain) -> None:
    chain.receipts_of(3)[1]["logs"][0]["logIndex"] = "0x 1"


def _odd_data(chain: TinyChain) -> None:
    chain.receipts_of(3)[1]["logs"][0]["data"] = "0xabc"


def _bare_address(chain: TinyChain) -> None:
    chain.block(3)["miner"] = "00" * 21


def _unknown_status(chain: TinyChain) -> None:
    chain.receipts_of(3)[0]["status"] = "0x2"


def _swap_logs(chain: TinyChain) -> None:
    first, second = chain.receipts_of(3)
    first["logs"][0]["logIndex"], second["logs"][0]["logIndex"] = "0x1", "0x0"


def _give_another_block(chain: TinyChain) -> None:
    chain.blocks[3], chain.receipts[3] = chain.blocks[4], chain.receipts[4]


def _give_receipts_of_another_block(chain: TinyChain) -> None:
    chain.receipts[3] = chain.receipts[4]


def _give_receipts_for_a_block(chain: TinyChain) -> None:
    chain.blocks[3] = chain.receipts_of(3)  # type: ignore[call-overload]


def _give_a_block_for_receipts(chain: TinyChain) -> None:
    chain.receipts[3] = chain.block(3)  # type: ignore[call-overload]


def _null_transaction(chain: TinyChain) -> None:
    chain.block(3)["transactions"][0] = None


def _null_hash(chain: TinyChain) -> None:
    chain.block(3)["hash"] = None


def _null_logs(chain: TinyChain) -> None:
    chain.receipts_of(3)[0]["logs"] = None


@corpus(
    ("bend", "says"),
    [
        (_bend_bloom, "block 3 has no logs, and its logsBloom says that it has"),
        (_bend_number, "asked for block 3, got block 0x4"),
        (_bend_parent, "block 3 is not a child of the block before it"),
        (_bend_receipt_block, "a receipt of block 3 is of another block"),
        (_cut_receipts, "block 3 has 2 transactions, 1 receipts"),
        (_empty_receipts, "block 3 has 2 transactions, 0 receipts"),
        (_swap_receipts, "the receipts of block 3 are of other transactions"),
        (_swap_transactions, "the transactions of block 3 are out of order"),
        (_bend_hex, "input of transaction 0 of block 3 is '0xzz': "),
        (_cut_hash, "stateRoot of block 3 is '0x1234': it is not 32 bytes of hex"),
        (_cut_topic, "topics of log 0 of transaction 1 of block 3 is ['0xdd']: "),
        (_drop_field, "missing required field `miner`"),
        (_change_type, "Expected `str`, got `int`"),
        (_only_hashes, "Expected `object`, got `str`"),
        (_decimal_gas, "gas of transaction 1 of block 3 is '21000': a number is 0x and"),
        (_decimal_value, "value of transaction 1 of block 3 is '21000': a number is 0x and"),
        (_spaced_log_index, "logIndex of log 0 of transaction 1 of block 3 is '0x 1': "),
        (_odd_data, "data of log 0 of transaction 1 of block 3 is '0xabc': "),
        (_bare_address, "miner of block 3 is '00000"),
        (_unknown_status, "status of transaction 0 of block 3 is '0x2': "),
        (_overflow, "it does not fit 256 bits"),
        (_overflow_int64, "timestamp of block 3 is '0x8000000000000000': it does not fit"),
        (_repeat_log_index, "the logs of block 3 are out of order"),
        (_swap_logs, "the logs of block 3 are out of order"),
        (_give_another_block, "asked for block 3, got block 0x4"),
        (_give_receipts_of_another_block, "a receipt of block 3 is of another block"),
        (_give_receipts_for_a_block, "the answer for block 3 is not a block"),
        (_give_a_block_for_receipts, "the answer for the receipts of block 3 is a block"),
        (_null_transaction, "Expected `object`, got `null`"),
        (_null_hash, "Expected `str`, got `null`"),
        (_null_logs, "Expected `array`, got `null`"),
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


class Collector:
    """In place of the process's own, which other threads may have turned off."""

    def __init__(self) -> None:
        self.is_on = True

    def isenabled(self) -> bool:
        return self.is_on

    def disable(self) -> None:
        self.is_on = False

    def enable(self) -> None:
        self.is_on = True


def test_the_garbage_collector_is_off_while_rows_are_made_and_at_no_other_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector, chain, seen = Collector(), TinyChain(), set()
    monkeypatch.setattr(fetch, "gc", collector)
    monkeypatch.setattr(fetch, "_no_gc", fetch._NoGc())
    monkeypatch.setattr(fetch, "_ROWS_PER_CHUNK", 1)

    def answer(method: str, params: list[Any]) -> Any:
        seen.add(collector.is_on)
        return chain.answer(method, params)

    with scripted_rpc(answer) as node, fetching(node, batch_blocks=1, in_flight=1) as fetcher:
        chunks = iter(fetcher.chunks(BlockRange(0, 9)))
        next(chunks)
        assert collector.is_on
        others = iter(fetcher.chunks(BlockRange(0, 3)))
        next(others)
        assert collector.is_on
        with pytest.raises(TraceError):
            list(fetcher.chunks(BlockRange(0, 99)))
        assert collector.is_on
    assert False in seen


@pytest.mark.parametrize("in_flight", [1, 3])
def test_receipts_by_hash_give_the_same_rows(in_flight: int) -> None:
    chain = TinyChain(n_blocks=12, n_transactions=3)
    with scripted_rpc(chain.answer) as node:
        by_number = tables(node, BlockRange(0, 11))
        options = {"batch_blocks": 2, "in_flight": in_flight}
        assert tables(node, BlockRange(0, 11), by_hash=True, **options) == by_number


def test_receipts_by_hash_are_of_the_blocks_that_were_read() -> None:
    """The number has another block by the time that its receipts are asked for."""
    chain, other = TinyChain(n_blocks=4), TinyChain(n_blocks=4)
    for receipt in other.receipts_of(3):
        receipt["blockHash"] = digest("another")

    def answer(method: str, params: list[Any]) -> Any:
        moved = method == "eth_getBlockReceipts" and params[0] == "0x3"
        return (other if moved else chain).answer(method, params)

    with scripted_rpc(answer) as node:
        assert tables(node, BlockRange(0, 3), by_hash=True)["blocks"].num_rows == 4
        with pytest.raises(MalformedBlock, match="of another block"):
            tables(node, BlockRange(0, 3))


def test_receipts_of_a_block_that_is_gone_are_not_taken_for_none() -> None:
    chain = TinyChain(n_blocks=4)
    chain.receipts[3] = None
    refusal = pytest.raises(RpcUnreachable, match=r"not have the receipts of block 3 .*null")
    with scripted_rpc(chain.answer) as node, refusal as caught:
        tables(node, BlockRange(0, 3), by_hash=True)
    assert caught.value.retryable


def _wants_an_object(chain: TinyChain) -> Callable[[str, list[Any]], Any]:
    def answer(method: str, params: list[Any]) -> Any:
        if method == "eth_getBlockReceipts" and isinstance(params[0], str):
            return RpcError(-32602, "invalid argument 0: hex number > 64 bits")
        return chain.answer(method, params)

    return answer


def test_a_node_that_wants_the_hash_in_an_object_gets_it() -> None:
    chain = TinyChain(n_blocks=8)
    with scripted_rpc(_wants_an_object(chain)) as node, fetching(node, batch_blocks=2) as fetcher:
        found = joined(fetcher.chunks(BlockRange(0, 7), by_hash=True))
        asked = len(node.calls)
        again = joined(fetcher.chunks(BlockRange(0, 7), by_hash=True))
        assert len(node.calls) - asked == 16  # it is not tried the other way any more
    assert found == again
    with scripted_rpc(chain.answer) as node:
        assert found == tables(node, BlockRange(0, 7))


def _has_no_block_receipts(chain: TinyChain) -> Callable[[str, list[Any]], Any]:
    def answer(method: str, params: list[Any]) -> Any:
        if method == "eth_getBlockReceipts":
            return RpcError(-32601, "no such method")
        return chain.answer(method, params)

    return answer


def _plain(chain: TinyChain) -> Callable[[str, list[Any]], Any]:
    return chain.answer


@pytest.mark.parametrize("kind", [_plain, _wants_an_object, _has_no_block_receipts])
def test_one_block_by_its_hash(
    kind: Callable[[TinyChain], Callable[[str, list[Any]], Any]],
) -> None:
    chain = TinyChain(n_blocks=5, n_transactions=3)
    with scripted_rpc(chain.answer) as node:
        expected = tables(node, BlockRange(4, 4))
    with scripted_rpc(kind(chain)) as node, fetching(node) as fetcher:
        for _ in range(2):
            found = fetcher.block_by_hash(bytes.fromhex(chain.block(4)["hash"][2:]))
            assert joined([found]) == expected
        assert kind is not _plain or node.requests == 2


def test_a_hash_that_the_node_does_not_have_is_named() -> None:
    refusal = pytest.raises(RpcUnreachable, match="does not have block 0xabab")
    with scripted_rpc(TinyChain().answer) as node, fetching(node) as fetcher, refusal as caught:
        fetcher.block_by_hash(b"\xab" * 32)
    assert caught.value.facts == {"block_hash": "0x" + "ab" * 32}
    assert caught.value.retryable


def test_another_block_than_the_hash_asked_for_is_refused() -> None:
    chain = TinyChain()

    def answer(method: str, params: list[Any]) -> Any:
        return chain.block(2) if method == "eth_getBlockByHash" else chain.receipts_of(2)

    refusal = pytest.raises(MalformedBlock, match="asked for block 0x0000")
    with scripted_rpc(answer) as node, fetching(node) as fetcher, refusal:
        fetcher.block_by_hash(bytes(32))


def test_headers_are_the_links_of_the_chain_without_its_transactions() -> None:
    chain = TinyChain(n_blocks=7)
    with scripted_rpc(chain.answer) as node, fetching(node, batch_blocks=3) as fetcher:
        found = fetcher.headers([6, 5, 9, 0])
        # The one that is not there is asked for again, alone.
        assert (node.requests, len(node.calls)) == (2 + 2, 4 + 2)
    assert found[2] is None
    for number, header in zip((6, 5, 0), (found[0], found[1], found[3]), strict=True):
        block = chain.block(number)
        assert header == (
            number,
            bytes.fromhex(block["hash"][2:]),
            bytes.fromhex(block["parentHash"][2:]),
        )


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("number", "0x3", "asked for block 2, got block 3"),
        ("number", "two", "block 2: number is 'two': "),
        ("hash", "0x12", "not 32 bytes"),
        ("parentHash", "0x" + "zz" * 32, "block 2: parentHash is '0xzz"),
    ],
)
def test_a_malformed_header_is_refused(field: str, value: str, says: str) -> None:
    chain = TinyChain()
    chain.block(2)[field] = value
    refusal = pytest.raises(MalformedBlock, match=says)
    with scripted_rpc(chain.answer) as node, fetching(node) as fetcher, refusal:
        fetcher.headers([1, 2])


def _no_traces(chain: TinyChain) -> None:
    chain.traces[3] = []


def _traces_of_another_block(chain: TinyChain) -> None:
    chain.traces_of(3)[1]["blockHash"] = digest("another")


def _trace_of_another_transaction(chain: TinyChain) -> None:
    chain.traces_of(3)[1]["transactionPosition"] = 0


def _trace_beyond_the_block(chain: TinyChain) -> None:
    chain.traces_of(3)[1]["transactionPosition"] = 2


def _trace_without_value(chain: TinyChain) -> None:
    del chain.traces_of(3)[0]["action"]["value"]


def _trace_of_fewer_than_none(chain: TinyChain) -> None:
    chain.traces_of(3)[1]["subtraces"] = -1


def _trace_too_deep(chain: TinyChain) -> None:
    chain.traces_of(3)[0]["subtraces"] = 2**63


@corpus(
    ("bend", "says"),
    [
        (_no_traces, "block 3 has 2 transactions, 0 traces"),
        (_traces_of_another_block, "a trace of block 3 is of another block"),
        (_trace_of_another_transaction, "a trace of block 3 is of another transaction"),
        (_trace_beyond_the_block, "a trace of block 3 is of another transaction"),
        (_trace_without_value, "value of trace 0 of block 3 is None: "),
        (_trace_of_fewer_than_none, "subtraces of trace 1 of block 3 is -1: it is negative"),
        (_trace_too_deep, "does not fit 64 bits"),
    ],
)
def test_malformed_traces_are_refused(bend: Callable[[TinyChain], None], says: str) -> None:
    chain = TinyChain(n_blocks=10)
    bend(chain)
    with scripted_rpc(chain.answer) as node, pytest.raises(MalformedBlock) as caught:
        tables(node, BlockRange(0, 9), tables=("traces",))
    assert says in caught.value.message
    assert caught.value.retryable


def test_traces_that_the_node_does_not_have_yet_are_named() -> None:
    chain = TinyChain(n_blocks=4)
    chain.traces[3] = None
    refusal = pytest.raises(RpcUnreachable, match="does not have the traces of block 3")
    with scripted_rpc(chain.answer) as node, refusal as caught:
        tables(node, BlockRange(0, 3), tables=("traces",))
    assert caught.value.facts == {"block": 3}
    assert caught.value.retryable


@pytest.mark.parametrize(
    "fault",
    [
        RpcError(-32601, "the method trace_block does not exist"),
        RpcError(-32000, "Method not found"),
    ],
)
def test_a_node_that_cannot_trace_is_a_matter_of_the_config(fault: RpcError) -> None:
    chain = TinyChain(n_blocks=4)

    def answer(method: str, params: list[Any]) -> Any:
        return fault if method == "trace_block" else chain.answer(method, params)

    refusal = pytest.raises(InvalidConfig, match="does not have the method trace_block")
    with scripted_rpc(answer) as node, refusal as caught:
        tables(node, BlockRange(0, 3), tables=("blocks", "traces"))
    assert not caught.value.retryable


def test_traces_come_with_a_block_by_its_hash() -> None:
    chain = TinyChain(n_blocks=4)
    options = {"tables": ("blocks", "transactions", "logs", "traces")}
    with scripted_rpc(chain.answer) as node, fetching(node, **options) as fetcher:
        found = fetcher.block_by_hash(bytes.fromhex(chain.block(3)["hash"][2:]))
    assert found.traces["transaction_index"].to_pylist() == [0, 1]


def test_large_blocks_are_asked_for_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory follows what the answers hold, not how many blocks a batch may have."""
    monkeypatch.setattr(pace, "_ROWS_PER_BATCH", 50)
    chain = TinyChain(n_blocks=60, n_transactions=10)  # 21 rows a block
    for number in range(30, 60):  # 3 rows a block
        chain.block(number)["transactions"] = chain.block(number)["transactions"][:1]
        del chain.receipts_of(number)[1:]
    sizes: list[int] = []
    with scripted_rpc(chain.answer) as node:
        reply = node.reply

        def counted(body: Any) -> Any:
            if isinstance(body, list):
                sizes.append(len(body) // 2)
            return reply(body)

        node.reply = counted  # type: ignore[method-assign]
        found = tables(node, BlockRange(0, 59), batch_blocks=40, in_flight=1)
    assert found["blocks"]["block_number"].to_pylist() == list(range(60))
    assert sizes[:9] == [8, 8, 2, 2, 2, 2, 2, 2, 2]
    assert max(sizes[9:]) == 16


def test_a_headers_batch_that_is_too_large_is_asked_in_halves() -> None:
    with scripted_rpc(TinyChain(n_blocks=8).answer) as node, fetching(node) as fetcher:
        reply = node.reply

        def limited(body: Any) -> Any:
            if isinstance(body, list) and len(body) > 2:
                return {"id": None, "error": {"code": -32003, "message": "too large"}}
            return reply(body)

        node.reply = limited  # type: ignore[method-assign]
        found = fetcher.headers(range(8))
    assert [header.number for header in found if header] == list(range(8))
