"""Providers that answer a part of what they are asked: the egress puts the rest together from the
whole pool, call by call, and never gives a client less than it asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.bad_provider import NULL, BadProvider, Fault, bad_provider
from tests.support.served_egress import ServedEgress, call, pool, served_egress
from trace_platform.rpc.config import Timing

Open = Callable[..., Any]
BLOCK = "eth_getBlockByNumber"
# Looks are rare: nothing but the test's own questions is counted.
STILL = Timing(poll_s=60, idle_poll_s=60, backoff_s=(0.01, 0.02))
ONE_ERROR = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no batches"}}


@pytest.fixture
def nodes() -> Iterator[Callable[..., BadProvider]]:
    with ExitStack() as stack:
        yield lambda **given: stack.enter_context(bad_provider(**given))


@pytest.fixture
def egress_of() -> Iterator[Callable[..., ServedEgress]]:
    with ExitStack() as stack:

        def serve(*urls: str, **given: Any) -> ServedEgress:
            egress = stack.enter_context(served_egress(pool(*urls, **given), timing=STILL))
            egress.call("eth_chainId")  # is answered after the first look
            return egress

        yield serve


def blocks(egress: ServedEgress, *numbers: int) -> list[Any]:
    """What is said of each: its number, or the error's message; None where nothing is there."""
    asked = [call(BLOCK, hex(n), False, call_id=i) for i, n in enumerate(numbers)]
    answers = egress.post("main", asked).json()
    assert isinstance(answers, list), answers
    by_id = {each["id"]: each for each in answers}
    assert len(by_id) == len(answers) == len(numbers)
    return [_said(by_id[i]) for i in range(len(numbers))]


def _said(answer: Any) -> Any:
    if "error" in answer:
        return answer["error"]["message"]
    return answer["result"] and int(answer["result"]["number"], 16)


def only(*numbers: int) -> Callable[[Any], Any]:
    """An edit: null for every other block."""

    def change(answer: Any) -> Any:
        if isinstance(answer, list):
            return [change(each) for each in answer]
        told = answer["result"]
        if isinstance(told, dict) and int(told["number"], 16) not in numbers:
            return answer | {"result": None}
        return answer

    return change


def in_batches(change: Callable[[list[Any]], Any]) -> Callable[[Any], Any]:
    return lambda told: change(told) if isinstance(told, list) else told


MALFORMED = {
    "dropped": lambda told: told[:-1],
    "all but one dropped": lambda told: told[:1],
    "none at all": lambda told: [],
    "repeated in place of another": lambda told: [told[0], told[0], *told[2:]],
    "one too many": lambda told: [*told, told[0]],
    "foreign": lambda told: [told[0] | {"id": 77}, *told[1:]],
    "one error for all": lambda told: ONE_ERROR,
    "numbered anew": lambda told: [each | {"id": i + 1} for i, each in enumerate(told)],
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_what_a_malformed_batch_lacks_is_asked_of_another_and_counts_against_its_provider(
    nodes: Open, egress_of: Open, change: Callable[[list[Any]], Any]
) -> None:
    broken, right = nodes(edit=in_batches(change)), nodes()
    egress = egress_of(broken.url, right.url)
    assert blocks(egress, 5, 6, 7) == [5, 6, 7]
    assert egress.providers()["a"]["failures"] == 1
    assert blocks(egress, 5, 6, 7) == blocks(egress, 5, 6, 7) == [5, 6, 7]
    assert egress.states()["a"] == "down"


def _long(answer: Any) -> Any:
    """More than is held of an answer that streams."""
    told = answer["result"]
    more = {"extraData": "0x" + "ab" * (5 << 20)}
    return answer | {"result": told | more} if isinstance(told, dict) else answer


def test_a_large_batch_that_lost_an_answer_does_not_pass_as_whole(
    nodes: Open, egress_of: Open
) -> None:
    broken = nodes(edit=in_batches(lambda told: [_long(each) for each in told[:-1]]))
    egress = egress_of(broken.url, nodes().url)
    assert blocks(egress, 5, 6, 7) == [5, 6, 7]


def test_the_only_one_is_asked_again_for_what_it_left_out(nodes: Open, egress_of: Open) -> None:
    node = nodes(edit=in_batches(lambda told: told[:-1]))
    egress = egress_of(node.url)
    assert blocks(egress, 5, 6, 7) == [5, 6, 7]
    assert [len(asked) for asked in node.requests if BLOCK in asked] == [3, 1]


def test_what_the_only_one_left_out_of_a_large_batch_is_found_when_it_is_asked_for_whole(
    nodes: Open, egress_of: Open
) -> None:
    """Large answers of the only provider pass unread: the operators' client counts them, and asks
    once more in this way."""
    node = nodes(edit=in_batches(lambda told: [_long(each) for each in told[:-1]]))
    egress = egress_of(node.url)
    asked = [call(BLOCK, hex(n), False, call_id=n) for n in range(3)]
    answers = egress.post("main", asked, params={"agree": "majority"}).json()
    assert [each["id"] for each in answers] == [0, 1, 2]
    assert egress.providers()["a"]["failures"] == 1


def test_an_answer_that_would_stream_is_put_together_with_others(
    nodes: Open, egress_of: Open
) -> None:
    empty, large = nodes(always={BLOCK: NULL}), nodes(edit=_long)
    egress = egress_of(empty.url, large.url)
    assert _said(egress.call(BLOCK, "0x5", False)) == 5
    by_ones = egress_of(large.url, max_batch=1)
    assert blocks(by_ones, 5, 6) == [5, 6]


def test_an_answer_to_another_call_is_none(nodes: Open, egress_of: Open) -> None:
    stranger = nodes(edit=lambda told: told | {"id": 99} if "number" in str(told) else told)
    egress = egress_of(stranger.url, nodes().url)
    answer = egress.call(BLOCK, "0x5", False)
    assert (answer["id"], answer["result"]["number"]) == (1, "0x5")


NEXT = {
    "a part": in_batches(lambda told: told[:1]),
    "one error for all": in_batches(lambda told: ONE_ERROR),
    "an error each": in_batches(
        lambda told: [
            {"id": each["id"], "error": {"code": -32000, "message": "header not found"}}
            for each in told
        ]
    ),
}


@pytest.mark.parametrize("edit", NEXT.values(), ids=NEXT)
def test_after_a_null_the_search_goes_on_whatever_the_next_one_says(
    nodes: Open, egress_of: Open, edit: Callable[[Any], Any]
) -> None:
    empty = nodes(always={BLOCK: NULL})
    egress = egress_of(empty.url, nodes(edit=edit).url, nodes().url)
    assert blocks(egress, 5, 6) == [5, 6]


def test_blocks_that_two_hold_one_each_are_both_found(nodes: Open, egress_of: Open) -> None:
    egress = egress_of(nodes(edit=only(5)).url, nodes(edit=only(6)).url)
    # Block 101 is beyond every head: nobody has it, and that keeps nobody from the others.
    assert blocks(egress, 5, 6, 101) == [5, 6, None]


def test_a_null_is_not_replaced_by_the_error_of_another(nodes: Open, egress_of: Open) -> None:
    refuses = Fault(error={"code": -32000, "message": "header not found"})
    egress = egress_of(nodes(always={BLOCK: NULL}).url, nodes(always={BLOCK: refuses}).url)
    assert blocks(egress, 5, 6) == [None, None]
    assert egress.call(BLOCK, "0x5", False)["result"] is None


PRUNED = (
    {"code": 4444, "message": "old data"},
    {"code": -32001, "message": "Resource not found."},
    {"code": -32000, "message": "missing trie node 4a7b (path ) state 0x12 is not available"},
    {"code": -32000, "message": "this request needs an archive node"},
    {"code": -32000, "message": "Archive data is not part of your plan"},
    {"code": -32000, "message": "pruned history unavailable"},
    {"code": -32000, "message": "history has been pruned for this block"},
    {"code": -32602, "message": "historical state 0xab is not available"},
    {"code": -32000, "message": "old data not available due to pruning"},
    {"code": -32000, "message": "state at block #5 is pruned"},
    {"code": -32000, "message": "distance to target block exceeds maximum proof window"},
)


def test_an_archive_node_behind_a_pruned_one_is_found_and_then_asked_first(
    nodes: Open, egress_of: Open
) -> None:
    pruned, archive = nodes(head=500), nodes(head=500)
    for said in PRUNED:
        egress = egress_of(pruned.url, archive.url)
        pruned.always, before = {BLOCK: Fault(error=said)}, pruned.times(BLOCK)
        assert blocks(egress, 5, 6) == [5, 6], said
        assert (blocks(egress, 4, 6), _said(egress.call(BLOCK, "0x6", False))) == ([4, 6], 6)
        assert pruned.times(BLOCK) == before + 1, said
        assert egress.states()["a"] == "ok"
        assert f"{BLOCK} up to block 6" in egress.providers()["a"]["reason"]
        pruned.always = {}
        assert blocks(egress, 7, 8) == [7, 8]
        assert pruned.times(BLOCK) == before + 2, "what is newer it is asked for"


def test_a_time_out_of_a_node_is_no_answer_of_the_chain(nodes: Open, egress_of: Open) -> None:
    slow = Fault(error={"code": -32002, "message": "request timed out"})
    egress = egress_of(nodes(always={BLOCK: slow}).url, nodes().url)
    assert blocks(egress, 5, 6) == [5, 6]
    assert egress.providers()["a"]["reason"] is None


def test_a_null_that_another_fills_teaches_what_is_pruned(nodes: Open, egress_of: Open) -> None:
    pruned, archive = nodes(head=500, always={BLOCK: NULL}), nodes(head=500)
    egress = egress_of(pruned.url, archive.url)
    before = pruned.times(BLOCK)
    assert blocks(egress, 5, 6) == blocks(egress, 5, 6) == [5, 6]
    assert pruned.times(BLOCK) == before + 1
    assert f"{BLOCK} up to block 6" in egress.providers()["a"]["reason"]


def test_who_is_known_to_lack_it_is_asked_when_nobody_else_answers(
    nodes: Open, egress_of: Open
) -> None:
    pruned, archive = nodes(head=500, always={BLOCK: NULL}), nodes(head=500)
    egress = egress_of(pruned.url, archive.url)
    assert blocks(egress, 5, 6) == [5, 6]
    pruned.always, archive.always = {}, {BLOCK: Fault(500, b"oops")}
    assert blocks(egress, 5, 6) == [5, 6], "it may have been upgraded"


def test_a_revert_that_speaks_of_pruning_is_an_answer(nodes: Open, egress_of: Open) -> None:
    reverted = {"code": 3, "message": "execution reverted: history pruned, request timed out"}
    egress = egress_of(nodes(always={"eth_call": Fault(error=reverted)}).url, nodes().url)
    assert egress.call("eth_call", {}, "0x1")["error"]["code"] == 3


def test_a_method_of_a_batch_that_one_lacks_is_asked_of_another(
    nodes: Open, egress_of: Open
) -> None:
    def without_traces(told: Any) -> Any:
        if isinstance(told, list):
            return [without_traces(each) for each in told]
        missing = {"id": told["id"], "error": {"code": -32601, "message": "the method is unknown"}}
        return missing if "trace_block" in str(told) else told

    first, second = nodes(edit=without_traces), nodes()
    egress = egress_of(first.url, second.url)
    asked = [call(BLOCK, "0x5", False, call_id=0), call("trace_block", "0x5", call_id=1)]
    for _ in range(3):
        assert all("result" in each for each in egress.post("main", asked).json())
    assert first.times("trace_block") == 1
    assert egress.providers()["a"]["reason"] == "it does not answer trace_block"


def test_two_calls_of_one_id_are_refused(nodes: Open, egress_of: Open) -> None:
    egress = egress_of(nodes().url)
    asked = [call(BLOCK, "0x5", False), call(BLOCK, "0x6", False)]
    error = egress.post("main", asked).json()["error"]
    assert error["code"] == -32600
    assert "the id 1 twice" in error["message"]
    for odd in ([1], {"a": 1}):
        error = egress.post("main", [call(BLOCK, "0x5", False) | {"id": odd}]).json()["error"]
        assert error["code"] == -32600
