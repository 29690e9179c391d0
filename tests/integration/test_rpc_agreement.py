"""What most providers say: the same in every field that is used, and nothing that only a minority
said."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.bad_provider import NULL, BadProvider, Fault, bad_provider, limited
from tests.support.served_egress import USER_TOKEN, ServedEgress, call, pool, served_egress
from trace_platform.rpc.config import Timing

Open = Callable[..., Any]
STILL = Timing(poll_s=60, idle_poll_s=60, backoff_s=(0.01,))
BLOCK, RECEIPTS = "eth_getBlockByNumber", "eth_getBlockReceipts"
TRANSACTION = "eth_getTransactionByHash"

SENT = {
    "hash": "0x" + "ab" * 32,
    "blockHash": "0x" + "cd" * 32,
    "transactionIndex": "0x0",
    "nonce": "0x7",
    "from": "0x" + "aa" * 20,
    "to": None,
    "value": "0xde0b6b3a7640000",
    "input": "0x00ff",
    "gas": "0x5208",
    "gasPrice": "0x1",
    "v": "0x1b",
    "r": "0x0abc",
    "s": "0xdef",
}
TYPED = SENT | {"type": "0x2", "chainId": "0x1", "v": "0x1", "yParity": "0x1"}
WHOLE = {
    "number": "0x5",
    "hash": "0x" + "cd" * 32,
    "parentHash": "0x" + "ce" * 32,
    "timestamp": "0x10",
    "size": "0x200",
    "transactions": [SENT],
}
RECEIPT = {
    "transactionHash": SENT["hash"],
    "blockHash": WHOLE["hash"],
    "gasUsed": "0x5208",
    "status": "0x1",
    "from": SENT["from"],
    "logs": [
        {
            "address": "0x" + "bb" * 20,
            "topics": ["0x" + "cc" * 32],
            "data": "0x0010",
            "logIndex": "0x0",
        }
    ],
}


@pytest.fixture
def nodes() -> Iterator[Callable[..., BadProvider]]:
    with ExitStack() as stack:
        # Far ahead of the blocks that are asked for.
        yield lambda: stack.enter_context(bad_provider(head=1_000))


@pytest.fixture
def egress_of() -> Iterator[Callable[..., ServedEgress]]:
    with ExitStack() as stack:

        def serve(*nodes: BadProvider) -> ServedEgress:
            urls = [node.url for node in nodes]
            egress = stack.enter_context(served_egress(pool(*urls), timing=STILL))
            egress.call("eth_chainId")  # is answered after the first look
            return egress

        yield serve


@pytest.fixture
def saying(nodes: Open, egress_of: Open) -> Callable[..., ServedEgress]:
    """In front of nodes that answer the method so, each in its own way."""

    def serve(method: str, *results: Any) -> ServedEgress:
        made = [nodes() for _ in results]
        egress = egress_of(*made)
        for node, result in zip(made, results, strict=True):
            node.always[method] = Fault(result=result)
        return egress

    return serve


def changed(value: Any, *path: Any, to: Any) -> Any:
    found = copy.deepcopy(value)
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = to
    return found


def test_contents_of_a_minority_are_not_handed_on(saying: Open) -> None:
    egress = saying(BLOCK, changed(WHOLE, "transactions", 0, "value", to="0x1"), WHOLE, WHOLE)
    assert egress.call(BLOCK, "0x5", True, agree=True)["result"] == WHOLE
    # The liar is reported, and what it lied about is asked of the others from now on.
    told = egress.providers()["a"]
    assert told["state"] == "ok"
    assert told["reason"] == f"it says something else than most to {BLOCK}"
    assert egress.call(BLOCK, "0x5", True)["result"] == WHOLE
    text = egress.http.get("/metrics", headers={"Authorization": f"Bearer {USER_TOKEN}"}).text
    assert 'trace_rpc_errors_total{code="differs",pool="main",provider="a"} 1.0' in text
    assert {each["reason"] for name, each in egress.providers().items() if name != "a"} == {None}


def test_three_blocks_of_one_transaction_are_a_disagreement(saying: Open) -> None:
    said = [SENT | {"blockHash": "0x" + f"{i}{i}" * 32} for i in range(3)]
    egress = saying(TRANSACTION, *said)
    error = egress.call(TRANSACTION, SENT["hash"], agree=True)["error"]
    assert (error["code"], TRANSACTION in error["message"]) == (-32055, True)


USED = [
    (BLOCK, WHOLE, ("hash",), "0x" + "00" * 32),
    (BLOCK, WHOLE, ("timestamp",), "0x11"),
    (BLOCK, WHOLE, ("transactions", 0, "input"), "0x00ff00"),
    (BLOCK, WHOLE, ("transactions",), []),
    (TRANSACTION, TYPED, ("yParity",), "0x0"),
    (TRANSACTION, TYPED, ("chainId",), "0x5"),
    (RECEIPTS, [RECEIPT], (0, "status"), "0x0"),
    (RECEIPTS, [RECEIPT], (0, "status"), None),
    (RECEIPTS, [RECEIPT], (0, "logs"), []),
    (RECEIPTS, [RECEIPT], (0, "logs", 0, "data"), "0x10"),
    (RECEIPTS, [RECEIPT], (0, "logs", 0, "topics", 0), "0x" + "cd" * 32),
]


def test_a_field_that_is_used_and_altered_is_a_disagreement(saying: Open) -> None:
    for method, right, path, lie in USED:
        egress = saying(method, right, changed(right, *path, to=lie))
        error = egress.call(method, "0x5", agree=True).get("error", {})
        assert error.get("code") == -32055, (method, path)


def _reordered(value: Any) -> Any:
    if isinstance(value, list):
        return [_reordered(each) for each in value]
    if isinstance(value, dict):
        return {name: _reordered(value[name]) for name in reversed(value)}
    return value


SAME = [
    (BLOCK, WHOLE, _reordered(WHOLE)),
    (BLOCK, WHOLE, changed(WHOLE, "hash", to="0x" + "CD" * 32)),
    (BLOCK, WHOLE, changed(WHOLE, "timestamp", to="0x0010")),
    (BLOCK, WHOLE, WHOLE | {"size": "0x201", "totalDifficulty": "0x0", "mine": [1]}),
    (BLOCK, WHOLE, changed(WHOLE, "transactions", 0, "r", to="0xabc")),
    (BLOCK, WHOLE, changed(WHOLE, "transactions", 0, "type", to="0x0")),
    (BLOCK, WHOLE, changed(WHOLE, "transactions", 0, "accessList", to=[])),
    (BLOCK, WHOLE, changed(WHOLE, "transactions", 0, "chainId", to="0x1")),
    (TRANSACTION, TYPED, {name: TYPED[name] for name in TYPED if name != "yParity"}),
    (RECEIPTS, [RECEIPT], [RECEIPT | {"l1Fee": "0x1", "effectiveGasPrice": "0x1", "root": None}]),
    (RECEIPTS, [RECEIPT], changed([RECEIPT], 0, "logs", 0, "blockTimestamp", to="0x10")),
]


def test_mixed_clients_agree_however_they_write_what_is_used(saying: Open) -> None:
    for method, one, other in SAME:
        egress = saying(method, one, other)
        assert egress.call(method, "0x5", agree=True).get("result") == one, other
        assert {each["reason"] for each in egress.providers().values()} == {None}


def test_a_hash_in_upper_case_is_no_other_history(nodes: Open, egress_of: Open) -> None:
    def loud(told: Any) -> Any:
        block = told["result"]
        is_block = isinstance(block, dict)
        return (
            told | {"result": block | {"hash": "0x" + block["hash"][2:].upper()}}
            if is_block
            else told
        )

    first, second = nodes(), nodes()
    second.edit = loud
    assert set(egress_of(first, second).states().values()) == {"ok"}


def test_one_voter_that_rate_limits_leave_is_no_majority(nodes: Open, egress_of: Open) -> None:
    egress = egress_of(alone := nodes(), *(others := [nodes(), nodes()]))
    for node in others:
        node.always[BLOCK] = limited("3600")
    for _ in range(2):  # when they say so, and while they are left alone
        error = egress.call(BLOCK, "0x5", False, agree=True)["error"]
        assert error["code"] == -32005
        assert error["data"]["retry_after_s"] > 3_000
    assert egress.call(BLOCK, "0x5", False)["result"]["hash"] == alone.hash(5), "a plain read goes"


def test_two_of_three_are_a_majority_while_one_limits_the_rate(
    nodes: Open, egress_of: Open
) -> None:
    egress = egress_of(nodes(), nodes(), slow := nodes())
    slow.always[BLOCK] = limited("3600")
    for _ in range(2):
        assert egress.call(BLOCK, "0x5", False, agree=True)["result"]["hash"] == slow.hash(5)


PRUNED = Fault(error={"code": 4444, "message": "pruned history unavailable"})


def test_who_pruned_a_block_cannot_outvote_those_who_have_it(nodes: Open, egress_of: Open) -> None:
    for said in (PRUNED, NULL):
        archive, *pruned = nodes(), nodes(), nodes()
        egress = egress_of(archive, *pruned)
        for node in pruned:
            node.always[BLOCK] = said
        assert egress.call(BLOCK, "0x5", False, agree=True)["result"]["hash"] == archive.hash(5)
        archive.always[BLOCK] = PRUNED
        answer = egress.call(BLOCK, "0x5", False, agree=True)
        assert answer.get("error", {}).get("code") == 4444, "nobody has it"


def test_near_the_tip_a_block_that_most_do_not_have_is_not_there(
    nodes: Open, egress_of: Open
) -> None:
    egress = egress_of(nodes(), *(others := [nodes(), nodes()]))
    for node in others:
        node.always[BLOCK] = NULL
    assert egress.call(BLOCK, hex(999), False, agree=True)["result"] is None


def test_who_leaves_a_call_out_is_asked_for_it_once_more(nodes: Open, egress_of: Open) -> None:
    def without_the_last(told: Any) -> Any:
        return told[:-1] if isinstance(told, list) else told

    egress = egress_of(liar := nodes(), nodes(), dropping := nodes())
    liar.history, liar.forks_at = "lie", 0
    dropping.edit = without_the_last
    asked = [call(BLOCK, hex(i), False, call_id=i) for i in range(3)]
    answers = egress.post("main", asked, params={"agree": "majority"}).json()
    assert [each["result"]["hash"] for each in answers] == [dropping.hash(i) for i in range(3)]
