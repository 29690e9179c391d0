"""What the egress reads out of a question, and how it takes one apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.corpus import corpus
from trace_platform.rpc.answers import merged, parsed, replaced
from trace_platform.rpc.calls import Needs, read_question
from trace_platform.rpc.faults import RpcRefusal


def question(*calls: tuple[str, list[Any]], batch: bool = False) -> Any:
    made = [{"id": i, "method": method, "params": given} for i, (method, given) in enumerate(calls)]
    return read_question(json.dumps(made if batch or len(made) > 1 else made[0]).encode())


@corpus(
    ("method", "params", "needs"),
    [
        ("eth_blockNumber", [], Needs(tip=True)),
        ("eth_chainId", [], Needs()),
        ("eth_getBlockByNumber", ["latest", True], Needs(tip=True)),
        ("eth_getBlockByNumber", ["finalized", True], Needs(tip=True)),
        ("eth_getBlockByNumber", ["earliest", True], Needs(block=0)),
        ("eth_getBlockByNumber", ["0x10", True], Needs(block=16)),
        ("eth_getBlockByNumber", [], Needs(tip=True)),
        ("eth_getBlockByHash", ["0x" + "ab" * 32, True], Needs(hashes=True)),
        ("eth_getBlockReceipts", ["0x10"], Needs(block=16)),
        ("eth_getBlockReceipts", ["0x" + "ab" * 32], Needs(hashes=True)),
        ("eth_getBlockReceipts", [{"blockHash": "0x" + "ab" * 32}], Needs(hashes=True)),
        ("eth_getTransactionReceipt", ["0x" + "ab" * 32], Needs(hashes=True)),
        ("eth_getLogs", [{"fromBlock": "0x1", "toBlock": "0x9"}], Needs(block=9)),
        ("eth_getLogs", [{"fromBlock": "0x1"}], Needs(block=1, tip=True)),
        ("eth_getLogs", [{"blockHash": "0x" + "ab" * 32}], Needs(hashes=True)),
        ("eth_call", [{}, "0x7"], Needs(block=7)),
        ("eth_call", [{}], Needs(tip=True)),
        ("eth_call", [{}, {"blockNumber": "0x7"}], Needs(block=7)),
        ("eth_getStorageAt", ["0xaa", "0x0", "0x7"], Needs(block=7)),
        ("trace_block", ["0x7"], Needs(block=7)),
        ("debug_traceBlockByNumber", ["0x7", {}], Needs(block=7)),
    ],
)
def test_a_call_tells_which_blocks_it_needs(method: str, params: list[Any], needs: Needs) -> None:
    assert question((method, params)).needs == needs


def test_a_batch_needs_the_highest_of_its_blocks() -> None:
    asked = question(("eth_getBlockByNumber", ["0x5", True]), ("trace_block", ["0x3"]))
    assert asked.needs == Needs(block=5)


def test_parts_hold_the_calls_as_they_were_sent() -> None:
    odd = b'[ {"id" : 1.50, "method":"eth_chainId", "extra":[1, 2]},{"id":"b","method":"eth_call"}]'
    first, second = read_question(odd).split(1)
    assert first.body == b'{"id" : 1.50, "method":"eth_chainId", "extra":[1, 2]}'
    assert second.call_id == b'"b"'


def test_a_batch_has_a_limit() -> None:
    with pytest.raises(RpcRefusal):
        question(*[("eth_chainId", [])] * 10_001)


def test_a_refused_method_is_not_repeated_in_full() -> None:
    with pytest.raises(RpcRefusal) as caught:
        question(("admin_" + "x\n" * 5000, []))
    assert len(caught.value.message) < 200
    assert "\n" not in caught.value.message


def test_answers_of_parts_become_one_in_order() -> None:
    bodies = [b' [{"id":0,"result":1}, {"id":1,"result":2}]\n', b'{"id":2,"result":3}', b"[]"]
    assert json.loads(merged(bodies)) == [
        {"id": 0, "result": 1},
        {"id": 1, "result": 2},
        {"id": 2, "result": 3},
    ]


def test_an_answer_of_a_batch_can_be_replaced() -> None:
    body = b'[{"id":0,"result":1.10},{"id":1,"result":null}]'
    assert replaced(body, {1: b'{"id":1,"result":{}}'}) == (
        b'[{"id":0,"result":1.10},{"id":1,"result":{}}]'
    )
    assert [item.is_null for item in parsed(body)] == [False, True]
