"""The JSON-RPC surface: methods, tags, filters, batches, and what bad callers are told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.corpus import corpus
from trace_devchain import DevChain
from trace_devchain.activity import APPROVAL, SWAP, TRANSFER
from trace_devchain.log_filter import MAX_BLOCK_RANGE
from trace_devchain.rpc import MAX_BATCH, answer
from trace_platform.domain.evm_encoding import keccak256

HEAD = 120
CHAIN = DevChain(blocks=HEAD, seed=3)


def post(body: Any, chain: DevChain = CHAIN) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    text = b"".join(answer(chain, raw))
    return json.loads(text) if text else None


def ask(method: str, *params: Any, chain: DevChain = CHAIN) -> Any:
    return post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, chain)


def result(method: str, *params: Any, chain: DevChain = CHAIN) -> Any:
    answered = ask(method, *params, chain=chain)
    assert "error" not in answered, answered
    return answered["result"]


def error_code(method: str, *params: Any, chain: DevChain = CHAIN) -> int:
    error = ask(method, *params, chain=chain)["error"]
    assert error["message"]
    code: int = error["code"]
    return code


def test_identity_of_the_node() -> None:
    chain = DevChain(blocks=2, chain_id=1234)
    assert result("eth_chainId", chain=chain) == hex(1234)
    assert result("net_version", chain=chain) == "1234"
    assert result("eth_blockNumber", chain=chain) == "0x2"
    assert result("eth_syncing", chain=chain) is False
    assert "devchain" in result("web3_clientVersion", chain=chain)
    assert int(result("eth_gasPrice", chain=chain), 16) > 0


@corpus(
    ("tag", "number"),
    [
        ("earliest", 0),
        ("latest", HEAD),
        ("pending", HEAD),
        ("safe", HEAD - 32),
        ("finalized", HEAD - 64),
        ("0x5", 5),
    ],
)
def test_tags_name_blocks(tag: str, number: int) -> None:
    assert int(result("eth_getBlockByNumber", tag, False)["number"], 16) == number
    receipts = result("eth_getBlockReceipts", tag)
    assert receipts == result("eth_getBlockReceipts", hex(number))


@pytest.mark.parametrize("tag", ["safe", "finalized"])
def test_tags_stop_at_genesis(tag: str) -> None:
    chain = DevChain(blocks=10)
    assert result("eth_getBlockByNumber", tag, False, chain=chain)["number"] == "0x0"


def test_one_block_by_every_name() -> None:
    block = result("eth_getBlockByNumber", "0x7", True)
    assert result("eth_getBlockByHash", block["hash"], True) == block
    by_number = result("eth_getBlockReceipts", "0x7")
    assert by_number
    for name in (block["hash"], {"blockHash": block["hash"]}, {"blockNumber": "0x7"}):
        assert result("eth_getBlockReceipts", name) == by_number


def test_transactions_and_receipts_by_hash_equal_those_of_the_block() -> None:
    block = result("eth_getBlockByNumber", "0x8", True)
    receipts = result("eth_getBlockReceipts", "0x8")
    for tx, receipt in zip(block["transactions"], receipts, strict=True):
        assert result("eth_getTransactionByHash", tx["hash"]) == tx
        assert result("eth_getTransactionReceipt", tx["hash"]) == receipt


@corpus(
    ("method", "params"),
    [
        ("eth_getBlockByNumber", [hex(HEAD + 1), True]),
        ("eth_getBlockByNumber", [hex(2**70), True]),
        ("eth_getBlockByHash", ["0x" + "ab" * 32, False]),
        ("eth_getBlockReceipts", [hex(HEAD + 1)]),
        ("eth_getBlockReceipts", ["0x" + "ab" * 32]),
        ("eth_getTransactionByHash", ["0x" + "ab" * 32]),
        ("eth_getTransactionReceipt", ["0x" + "00" * 32]),
    ],
)
def test_what_does_not_exist_is_null(method: str, params: list[Any]) -> None:
    assert result(method, *params) is None


@corpus(
    ("method", "params"),
    [
        ("eth_chainId", [1]),
        ("eth_getBlockByNumber", []),
        ("eth_getBlockByNumber", ["latest", False, 1]),
        ("eth_getBlockByNumber", [5, False]),
        ("eth_getBlockByNumber", ["5", False]),
        ("eth_getBlockByNumber", ["0x", False]),
        ("eth_getBlockByNumber", ["0xzz", False]),
        ("eth_getBlockByNumber", ["-0x1", False]),
        ("eth_getBlockByNumber", ["newest", False]),
        ("eth_getBlockByNumber", [None, False]),
        ("eth_getBlockByNumber", ["latest", "yes"]),
        ("eth_getBlockByHash", ["0x12", False]),
        ("eth_getBlockReceipts", [{}]),
        ("eth_getBlockReceipts", [{"blockHash": "0x12"}]),
        ("eth_getBlockReceipts", [["0x1"]]),
        ("eth_getTransactionByHash", ["0x" + "g" * 64]),
        ("eth_getLogs", []),
        ("eth_getLogs", ["latest"]),
        ("eth_getLogs", [{"fromBlock": "0x9", "toBlock": "0x1"}]),
        ("eth_getLogs", [{"address": "0x12"}]),
        ("eth_getLogs", [{"address": [None]}]),
        ("eth_getLogs", [{"topics": "0x12"}]),
        ("eth_getLogs", [{"topics": [None] * 5}]),
        ("eth_getLogs", [{"topics": [["0x12"]]}]),
        ("eth_getLogs", [{"blockHash": "0x" + "ab" * 32, "fromBlock": "0x1"}]),
        ("eth_getLogs", [{"from": "0x1"}]),
        ("eth_getBalance", ["0x12", "latest"]),
        ("dev_mine", [0]),
        ("dev_mine", [-1]),
        ("dev_mine", [True]),
        ("dev_mine", [10**9]),
        ("dev_reorg", []),
        ("dev_reorg", [0]),
        ("dev_reorg", [HEAD + 1]),
        ("dev_reorg", ["many"]),
    ],
)
def test_wrong_parameters_are_named_as_such(method: str, params: list[Any]) -> None:
    assert error_code(method, *params) == -32602


def test_parameters_by_name_are_refused() -> None:
    answered = post({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": {"a": 1}})
    assert answered["error"]["code"] == -32602


def test_unknown_method_is_named() -> None:
    error = ask("eth_sendRawTransaction", "0x")["error"]
    assert error["code"] == -32601
    assert "eth_sendRawTransaction" in error["message"]


@corpus(
    "body",
    [b"", b"{", b"nope", b"\xff\xfe", b'{"id":1,"method":"\xff"}', b"[" * 100_000, b"[1,"],
)
def test_broken_json_is_a_parse_error(body: bytes) -> None:
    answered = post(body)
    assert answered["error"]["code"] == -32700
    assert answered["id"] is None


@corpus(
    "body",
    [
        1,
        "x",
        None,
        {},
        [],
        {"id": 1, "method": 5},
        {"id": {}, "method": "eth_chainId"},
        {"id": True, "method": "eth_chainId"},
        {"id": 1, "method": "eth_chainId", "jsonrpc": "1.0"},
    ],
)
def test_json_that_is_no_request_is_an_invalid_request(body: Any) -> None:
    assert post(body)["error"]["code"] == -32600


@corpus("identity", [0, -5, 'a"b', None, 1.5, 2**70])
def test_answer_repeats_the_id(identity: Any) -> None:
    answered = post({"jsonrpc": "2.0", "id": identity, "method": "eth_chainId"})
    assert answered == {"jsonrpc": "2.0", "id": identity, "result": hex(31337)}


def test_batch_answers_each_request_in_order() -> None:
    batch = [
        {
            "jsonrpc": "2.0",
            "id": n,
            "method": "eth_getBlockByNumber",
            "params": [hex(n), n % 2 == 0],
        }
        for n in range(50)
    ]
    answers = post(batch)
    assert [one["id"] for one in answers] == list(range(50))
    assert [int(one["result"]["number"], 16) for one in answers] == list(range(50))


def test_bad_items_of_a_batch_do_not_spoil_the_others() -> None:
    good = {"jsonrpc": "2.0", "id": "g", "method": "eth_chainId"}
    answers = post([1, good, {"id": 7, "method": 9}, {"id": 8, "method": "nope"}])
    assert [one.get("result", one.get("error", {}).get("code")) for one in answers] == [
        -32600,
        hex(31337),
        -32600,
        -32601,
    ]
    assert [one["id"] for one in answers] == [None, "g", 7, 8]


def test_notifications_get_no_answer() -> None:
    note = {"jsonrpc": "2.0", "method": "eth_chainId"}
    assert post(note) is None
    assert post([note, note]) is None
    assert post({"jsonrpc": "2.0", "method": "nope"}) is None
    assert [one["id"] for one in post([note, note | {"id": 4}])] == [4]


def test_oversized_batch_is_refused_whole() -> None:
    item = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}
    assert len(post([item] * MAX_BATCH)) == MAX_BATCH
    assert post([item] * (MAX_BATCH + 1))["error"]["code"] == -32600


def test_mine_and_reorg_over_rpc() -> None:
    chain = DevChain(blocks=10)
    assert result("dev_mine", chain=chain) == "0xb"
    assert result("dev_mine", 4, chain=chain) == "0xf"
    assert result("dev_mine", "0x1", chain=chain) == "0x10"
    old = result("eth_getBlockByNumber", "0xf", False, chain=chain)
    logs_before = result("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0xd"}, chain=chain)
    assert result("dev_reorg", 3, chain=chain) == "0x11"
    new = result("eth_getBlockByNumber", "0xf", False, chain=chain)
    assert new["hash"] != old["hash"]
    assert result("eth_getBlockByHash", old["hash"], False, chain=chain) is None
    assert result("eth_getBlockReceipts", old["hash"], chain=chain) is None
    assert error_code("eth_getLogs", {"blockHash": old["hash"]}, chain=chain) == -32000
    assert result("eth_getTransactionReceipt", old["transactions"][0], chain=chain) is None
    assert result("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0xd"}, chain=chain) == logs_before


def test_genesis_alone_cannot_be_reorganised() -> None:
    assert error_code("dev_reorg", 1, chain=DevChain(blocks=0)) == -32602


def test_balance_and_code_answer_for_any_account() -> None:
    account = "0x" + "12" * 20
    assert int(result("eth_getBalance", account, "latest"), 16) > 0
    assert result("eth_getCode", account) == "0x"
    assert error_code("eth_getCode", account, hex(HEAD + 1)) == -32000


def test_tokens_know_how_many_there_are_and_nobody_else_answers() -> None:
    chain = DevChain(blocks=9)
    (token, *_) = chain.tokens
    call = {"to": token, "data": "0x18160ddd"}
    assert int(result("eth_call", call, "0x4", chain=chain), 16) == 5 * 10**18
    assert int(result("eth_call", call, chain=chain), 16) == 10 * 10**18
    assert result("eth_call", call | {"to": "0x" + "12" * 20}, "latest", chain=chain) == "0x"
    assert error_code("eth_call", call | {"data": "0x"}, "latest", chain=chain) == 3
    assert error_code("eth_call", call, "0xa", chain=chain) == -32000
    assert error_code("eth_call", "0x", "latest", chain=chain) == -32602


def test_swaps_of_a_chain_with_pools_log_a_swap_behind_their_transfers() -> None:
    chain = DevChain(blocks=30, pools=True)
    found = result("eth_getLogs", {"fromBlock": "0x0", "topics": [SWAP]}, chain=chain)
    assert {log["address"] for log in found} <= set(chain.pools)
    assert len(found) > 10
    receipt = result("eth_getTransactionReceipt", found[0]["transactionHash"], chain=chain)
    assert [log["topics"][0] for log in receipt["logs"]] == [TRANSFER] * 3 + [SWAP]
    sold, _, _, bought = (int(found[0]["data"][2 + 64 * n :][:64], 16) for n in range(4))
    assert bought == int(receipt["logs"][1]["data"], 16)
    assert sold == min(int(receipt["logs"][0]["data"], 16), 2**112 - 1)
    assert result("eth_getLogs", {"fromBlock": "0x0", "topics": [SWAP]}) == []


def test_who_sends_an_nft_of_a_chain_with_items_sends_some_of_these_too() -> None:
    chain = DevChain(blocks=100, items=True)
    single, batch = (
        keccak256(f"Transfer{name}(address,address,address,uint256{many},uint256{many})".encode())
        for name, many in (("Single", ""), ("Batch", "[]"))
    )
    sizes = {single: 2, batch: 8}
    for topic, words in sizes.items():
        asked = {"fromBlock": "0x0", "topics": ["0x" + topic.hex()]}
        found = result("eth_getLogs", asked, chain=chain)
        assert {len(log["data"]) for log in found} == {2 + 64 * words}
        assert {len(log["topics"]) for log in found} == {4}
        assert result("eth_getLogs", asked) == []


def all_logs(first: int, last: int) -> list[dict[str, Any]]:
    return [
        log
        for n in range(first, min(last, HEAD) + 1)
        for receipt in result("eth_getBlockReceipts", hex(n))
        for log in receipt["logs"]
    ]


LOGS = all_logs(0, HEAD)
ADDRESSES = sorted({log["address"] for log in LOGS})
TOPICS = sorted({topic for log in LOGS[::7] for topic in log["topics"]}) + [TRANSFER, APPROVAL] * 40

topic_position = st.none() | st.sampled_from(TOPICS) | st.lists(st.sampled_from(TOPICS), max_size=4)


def oracle(log: dict[str, Any], addresses: Any, topics: list[Any]) -> bool:
    """The specification read aloud, with no thought for speed."""
    if isinstance(addresses, str):
        addresses = [addresses]
    if addresses and log["address"] not in addresses:
        return False
    if len(log["topics"]) < len(topics):
        return False
    for position, wanted in enumerate(topics):
        if wanted is None or wanted == []:
            continue
        if log["topics"][position] not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True


@settings(max_examples=150)
@given(
    first=st.integers(0, HEAD),
    length=st.integers(0, HEAD),
    addresses=st.none() | st.sampled_from(ADDRESSES) | st.lists(st.sampled_from(ADDRESSES)),
    topics=st.lists(topic_position, max_size=4),
)
def test_logs_equal_a_brute_force_search(
    first: int, length: int, addresses: Any, topics: list[Any]
) -> None:
    asked = {"fromBlock": hex(first), "toBlock": hex(first + length), "topics": topics}
    found = result("eth_getLogs", asked | ({"address": addresses} if addresses else {}))
    in_range = [log for log in LOGS if first <= int(log["blockNumber"], 16) <= first + length]
    assert found == [log for log in in_range if oracle(log, addresses, topics)]


def test_logs_of_one_block_by_hash() -> None:
    block = result("eth_getBlockByNumber", "0x9", False)
    assert result("eth_getLogs", {"blockHash": block["hash"]}) == all_logs(9, 9)


def test_logs_default_to_the_latest_block() -> None:
    assert result("eth_getLogs", {}) == all_logs(HEAD, HEAD)


def test_log_filters_ignore_the_case_of_hex() -> None:
    asked = {"fromBlock": "0x0", "address": ADDRESSES[0].upper().replace("0X", "0x")}
    assert result("eth_getLogs", asked) == [log for log in LOGS if log["address"] == ADDRESSES[0]]


def test_a_wildcard_position_still_needs_a_topic_there() -> None:
    anonymous = [log for log in LOGS if not log["topics"]]
    assert anonymous
    found = result("eth_getLogs", {"fromBlock": "0x0", "topics": [None]})
    assert found == [log for log in LOGS if log["topics"]]


def test_a_null_among_alternatives_is_a_wildcard() -> None:
    asked = {"fromBlock": "0x0", "topics": [[None, APPROVAL]]}
    assert result("eth_getLogs", asked) == [log for log in LOGS if log["topics"]]


def test_logs_beyond_the_head_are_none_rather_than_an_error() -> None:
    assert result("eth_getLogs", {"fromBlock": hex(HEAD + 5), "toBlock": hex(HEAD + 9)}) == []


def test_range_of_logs_is_limited() -> None:
    chain = DevChain(blocks=MAX_BLOCK_RANGE + 1, txs=0)
    asked = {"fromBlock": "0x0", "toBlock": "latest"}
    assert error_code("eth_getLogs", asked, chain=chain) == -32005


def test_traces_are_of_the_blocks_transactions() -> None:
    for number in range(1, HEAD + 1):
        block = result("eth_getBlockByNumber", hex(number), True)
        traces = result("trace_block", hex(number))
        first = [trace for trace in traces if trace["traceAddress"] == []]
        assert [t["transactionHash"] for t in first] == [t["hash"] for t in block["transactions"]]
        for trace in traces:
            sent = block["transactions"][trace["transactionPosition"]]
            assert (trace["blockHash"], trace["blockNumber"]) == (block["hash"], number)
            assert trace["transactionHash"] == sent["hash"]
        for trace, sent in zip(first, block["transactions"], strict=True):
            receipt = result("eth_getTransactionReceipt", sent["hash"])
            below = [
                t for t in traces if t["transactionHash"] == sent["hash"] and t["traceAddress"]
            ]
            assert trace["subtraces"] == len(below)
            assert [t["traceAddress"] for t in below] == [[n] for n in range(len(below))]
            assert trace["action"]["value"] == sent["value"]
            assert ("error" in trace) == (receipt["status"] == "0x0")
            if sent["to"] is None and trace["result"]:
                assert trace["result"]["address"] == receipt["contractAddress"]


def test_traces_by_hash_and_of_blocks_that_are_not_there() -> None:
    block = result("eth_getBlockByNumber", "0x5", False)
    assert result("trace_block", block["hash"]) == result("trace_block", "0x5")
    assert result("trace_block", hex(HEAD + 1)) is None
    assert result("trace_block", "0x0") == []
    assert error_code("trace_block") == -32602
