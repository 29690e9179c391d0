"""The egress in front of providers that behave badly: what its client sees."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest

from tests.support.authorization import READINGS
from tests.support.bad_provider import (
    HANG,
    HANG_UP,
    HTML,
    NULL,
    BadProvider,
    Fault,
    bad_provider,
    limited,
)
from tests.support.served_egress import (
    QUICK,
    USER_TOKEN,
    ServedEgress,
    call,
    pool,
    served_egress,
)
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.rpc.config import Timing

Eventually = Callable[..., None]
Open = Callable[..., Any]
BALANCE = "eth_getBalance"
ASKED = (BALANCE, "0xaa", "0x1")
RIGHT = 'eth_getBalance ["0xaa", "0x1"]'


@pytest.fixture
def nodes() -> Iterator[Callable[..., BadProvider]]:
    with ExitStack() as stack:
        yield lambda **given: stack.enter_context(bad_provider(**given))


@pytest.fixture
def egress_of() -> Iterator[Callable[..., ServedEgress]]:
    with ExitStack() as stack:
        yield lambda *pools, **given: stack.enter_context(served_egress(*pools, **given))


@pytest.mark.parametrize(
    "fault",
    [
        limited(),
        limited("3600"),
        HANG_UP,
        HTML,
        Fault(500, b"oops"),
        Fault(302, b"", {"Location": "http://127.0.0.1:9/"}),
        Fault(403, b"who are you?"),
        Fault(body=b'{"jsonrpc":"2.0","id":1,"result":"0x'),
        Fault(body=b'{"jsonrpc":"2.0","id":1}'),
        Fault(cut_after=10),
        Fault(body=b"x" * 300_000, cut_after=200_000),
        Fault(body=b"damaged", headers={"Content-Encoding": "gzip"}),
        Fault(error={"code": -32005, "message": "too many requests"}),
        Fault(429, b'{"jsonrpc":"2.0","id":1,"error":{"code":429,"message":"slow"}}'),
    ],
    ids=lambda fault: f"{fault.status}-{(fault.body or b'')[:12]!r}-{fault.cut_after}",
)
def test_one_that_fails_is_replaced_by_another_and_the_client_does_not_notice(
    nodes: Open, egress_of: Open, fault: Fault
) -> None:
    first, second = nodes(always={BALANCE: fault}), nodes()
    egress = egress_of(pool(first.url, second.url))
    assert egress.call(*ASKED)["result"] == RIGHT
    # Who hangs up on a connection that was open is asked once more on a new one.
    assert first.times(BALANCE) <= 2
    assert second.times(BALANCE) == 1


def test_one_that_hangs_is_replaced_when_its_time_is_up(nodes: Open, egress_of: Open) -> None:
    first, second = nodes(always={BALANCE: HANG}), nodes()
    timing = Timing(answer_s=2, poll_s=0.05, backoff_s=(0.01,))
    assert egress_of(pool(first.url, second.url), timing=timing).call(*ASKED)["result"] == RIGHT


def test_a_transient_failure_of_the_only_one_is_asked_again(nodes: Open, egress_of: Open) -> None:
    node = nodes(faults={BALANCE: [HTML, HANG_UP, limited("0")]})
    egress = egress_of(pool(node.url))
    answer = egress.call(*ASKED)
    assert answer.get("result") == RIGHT, answer
    assert node.times(BALANCE) == 4
    assert egress.providers()["a"]["state"] == "ok"


def test_retry_after_is_kept(nodes: Open, egress_of: Open) -> None:
    node = nodes(faults={BALANCE: [limited("1")]})
    egress = egress_of(pool(node.url))
    assert egress.call(*ASKED)["result"] == RIGHT
    assert node.times(BALANCE) == 2
    assert egress.providers()["a"]["limits_hit"] == 1


def test_a_limit_that_lasts_is_told_with_how_long(nodes: Open, egress_of: Open) -> None:
    node = nodes(always={BALANCE: limited("3600")})
    error = egress_of(pool(node.url)).call(*ASKED)["error"]
    assert error["code"] == -32005
    assert 3500 < error["data"]["retry_after_s"] <= 3600


def test_when_nobody_answers_each_is_named_with_its_reason(nodes: Open, egress_of: Open) -> None:
    web_page = nodes(always={BALANCE: HTML})
    egress = egress_of(pool("http://127.0.0.1:9", web_page.url))
    error = egress.call(*ASKED)["error"]
    assert error["code"] == -32050
    assert "a (http://127.0.0.1:9) is unreachable (Connection refused)" in error["message"]
    assert "not JSON" in error["message"]


def test_one_that_keeps_failing_is_left_alone_and_comes_back(
    nodes: Open, egress_of: Open, eventually: Eventually
) -> None:
    broken = dict.fromkeys((BALANCE, "eth_blockNumber", "eth_chainId"), HTML)
    first, second = nodes(always=broken), nodes()
    egress = egress_of(pool(first.url, second.url))
    eventually(lambda: egress.states()["a"] == "down", "the circuit opens")
    for _ in range(5):
        assert egress.call(*ASKED)["result"] == RIGHT
    assert first.times(BALANCE) == 0
    first.always.clear()
    eventually(lambda: egress.states()["a"] == "ok", "it is probed back")
    egress.call(*ASKED)
    assert first.times(BALANCE) == 1


def test_an_answer_that_dies_after_it_began_to_stream_is_cut_for_the_client_too(
    nodes: Open, egress_of: Open
) -> None:
    huge = b'{"jsonrpc":"2.0","id":1,"result":"' + b"a" * (20 << 20) + b'"}'
    node = nodes(always={BALANCE: Fault(body=huge, cut_after=15 << 20)})
    with pytest.raises(httpx.RemoteProtocolError):
        egress_of(pool(node.url)).post("main", call(*ASKED))


def test_a_huge_answer_passes_through_as_it_is(nodes: Open, egress_of: Open) -> None:
    huge = b'{"jsonrpc":"2.0","id":1,"result":"' + b"a" * (30 << 20) + b'"}'
    node = nodes(always={BALANCE: Fault(body=huge)})
    assert egress_of(pool(node.url)).post("main", call(*ASKED)).content == huge


def test_an_answer_beyond_all_bounds_is_refused_as_too_large(nodes: Open, egress_of: Open) -> None:
    promised = Fault(413, b"too much")
    error = egress_of(pool(nodes(always={BALANCE: promised}).url)).call(*ASKED)["error"]
    assert error["code"] == -32008


def test_a_client_that_leaves_ends_the_question(
    nodes: Open, egress_of: Open, eventually: Eventually
) -> None:
    node = nodes(always={BALANCE: HANG})
    # Without it the question would last longer than this test.
    egress = egress_of(pool(node.url), timing=Timing(answer_s=600, deadline_s=600))
    client = HTTPConnection(egress.url.removeprefix("http://"))
    headers = {"X-Trace-Worker-Token": egress.tokens[0]}
    client.request("POST", "/pools/main", json.dumps(call(*ASKED)), headers)
    eventually(lambda: node.times(BALANCE) == 1, "it is asked")
    client.close()
    assert node.abandoned.wait(60)


def test_errors_of_the_chain_are_answers_and_pass_through(nodes: Open, egress_of: Open) -> None:
    reverted = {"code": 3, "message": "execution reverted", "data": "0x08c379a0"}
    first, second = nodes(always={"eth_call": Fault(400, error=reverted)}), nodes()
    answer = egress_of(pool(first.url, second.url)).call("eth_call", {}, "0x1")
    assert answer["error"] == reverted
    assert second.times("eth_call") == 0


def test_a_packed_answer_is_unpacked_and_looked_at(nodes: Open, egress_of: Open) -> None:
    def packed(answer: dict[str, Any]) -> Fault:
        told = json.dumps({"jsonrpc": "2.0", "id": 1, **answer}).encode()
        return Fault(body=gzip.compress(told), headers={"Content-Encoding": "gzip"})

    limit = packed({"error": {"code": -32005, "message": "too many"}})
    node = nodes(faults={BALANCE: [limit, packed({"result": "0x2a"})]})
    response = egress_of(pool(node.url)).post("main", call(*ASKED))
    assert "content-encoding" not in response.headers
    assert response.json()["result"] == "0x2a"


# Batches


def test_a_batch_over_the_limit_is_split_and_comes_back_in_order(
    nodes: Open, egress_of: Open
) -> None:
    node = nodes()
    egress = egress_of(pool(node.url, max_batch=10))
    asked = [call(BALANCE, hex(i), "0x1", call_id=i) for i in range(35)]
    answers = egress.post("main", asked).json()
    assert [answer["id"] for answer in answers] == list(range(35))
    assert answers[34]["result"] == f'eth_getBalance ["{hex(34)}", "0x1"]'
    sizes = sorted(len(methods) for methods in node.requests if BALANCE in methods)
    assert sizes == [5, 10, 10, 10]


def test_a_node_without_batches_is_asked_one_by_one(nodes: Open, egress_of: Open) -> None:
    node = nodes()
    egress = egress_of(pool(node.url, max_batch=1))
    asked = [call(BALANCE, hex(i), "0x1", call_id=i) for i in range(5)]
    assert [answer["id"] for answer in egress.post("main", asked).json()] == list(range(5))
    assert all(isinstance(body, dict) for body in node.bodies)


def test_a_part_that_fails_is_asked_of_another(nodes: Open, egress_of: Open) -> None:
    first, second = nodes(faults={BALANCE: [HTML]}), nodes()
    egress = egress_of(pool(first.url, second.url, max_batch=2))
    asked = [call(BALANCE, hex(i), "0x1", call_id=i) for i in range(6)]
    assert [answer["id"] for answer in egress.post("main", asked).json()] == list(range(6))
    assert (first.times(BALANCE), second.times(BALANCE)) == (3, 1)


def test_concurrency_stays_below_the_limit(nodes: Open, egress_of: Open) -> None:
    node = nodes()
    egress = egress_of(pool(node.url, max_batch=1, max_concurrency=2))
    asked = [call(BALANCE, hex(i), "0x1", call_id=i) for i in range(40)]
    assert len(egress.post("main", asked).json()) == 40
    assert node.most_at_once <= 2


def test_the_rate_of_calls_is_limited(nodes: Open, egress_of: Open) -> None:
    node = nodes()
    still = Timing(poll_s=60, idle_poll_s=60)
    egress = egress_of(pool(node.url, requests_per_second=20), timing=still)
    asked = [call(BALANCE, hex(i), "0x1", call_id=i) for i in range(40)]
    assert len(egress.post("main", asked).json()) == 40
    assert egress.providers()["a"]["limits_hit"] >= 1


def test_each_of_many_clients_gets_its_own_answers(nodes: Open, egress_of: Open) -> None:
    node = nodes()
    egress = egress_of(pool(node.url, max_concurrency=4))
    broken = [Fault(cut_after=30), HANG_UP, Fault(500)] * 3

    def ask(client: int) -> list[str]:
        """Answers that are not to what was asked."""
        wrong = []
        for i in range(30):
            if i % 10 == 5:
                node.faults.setdefault(BALANCE, []).append(broken[client])
            params = [f"0x{client}", hex(i)]
            answer = egress.call(BALANCE, *params)
            if answer.get("result") != f"{BALANCE} {json.dumps(params)}":
                wrong.append(str(answer))
        return wrong

    with ThreadPoolExecutor(8) as clients:
        assert [wrong for each in clients.map(ask, range(8)) for wrong in each] == []


# Chains, heads, history


def test_a_provider_of_another_chain_is_not_asked(nodes: Open, egress_of: Open) -> None:
    wrong, right = nodes(chain_id=5), nodes()
    egress = egress_of(pool(wrong.url, right.url, chain_id=1))
    assert egress.call(*ASKED)["result"] == RIGHT
    assert wrong.times(BALANCE) == 0
    assert egress.providers()["a"]["reason"] == "it serves chain 5, not 1"


def test_the_only_provider_of_another_chain_is_named(nodes: Open, egress_of: Open) -> None:
    wrong = nodes(chain_id=5)
    error = egress_of(pool(wrong.url, chain_id=1)).call("eth_chainId")["error"]
    assert error["code"] == -32050
    assert "it serves chain 5, not 1" in error["message"]


def test_without_a_chain_id_most_providers_decide(nodes: Open, egress_of: Open) -> None:
    wrong, right, too = nodes(chain_id=5), nodes(), nodes()
    egress = egress_of(pool(wrong.url, right.url, too.url))
    assert egress.call("eth_chainId")["result"] == "0x1"
    assert egress.states() == {"a": "excluded", "b": "ok", "c": "ok"}


@pytest.mark.parametrize("ranked", [True, False])
def test_two_that_serve_two_chains_are_both_named(
    nodes: Open, egress_of: Open, ranked: bool
) -> None:
    one, other = nodes(chain_id=1), nodes(chain_id=5)
    egress = egress_of(pool(one.url, other.url, ranked=ranked))
    for asked in (("eth_chainId",), ASKED):
        error = egress.call(*asked)["error"]
        assert error["code"] == -32050
        for node, chain_id in ((one, 1), (other, 5)):
            assert f"({node.url}) is not asked: it serves chain {chain_id}" in error["message"]
        assert "set the pool's chain_id" in error["message"]
    assert one.times(BALANCE) == other.times(BALANCE) == 0


def test_the_newest_blocks_are_not_asked_of_one_that_lags(nodes: Open, egress_of: Open) -> None:
    lagging, second, third = nodes(head=90), nodes(), nodes()
    egress = egress_of(pool(lagging.url, second.url, third.url))
    assert egress.call("eth_blockNumber")["result"] == hex(100)
    assert egress.call("eth_getBlockByNumber", hex(95), True)["result"]["number"] == hex(95)
    assert egress.call("eth_getLogs", {"fromBlock": "0x5f", "toBlock": "0x60"})["result"]
    assert lagging.times("eth_getLogs") == 0
    assert egress.call(*ASKED)["result"] == RIGHT
    assert lagging.times(BALANCE) == 1  # what is old it has
    assert egress.providers()["a"]["lag"] == 10


def test_one_that_runs_ahead_alone_is_not_followed(nodes: Open, egress_of: Open) -> None:
    inventing, second, third = nodes(head=5000), nodes(), nodes()
    egress = egress_of(pool(inventing.url, second.url, third.url))
    assert egress.call("eth_blockNumber")["result"] == hex(100)
    assert egress.pools()["main"]["head"] == 100
    assert egress.states()["a"] == "runs_ahead"


def test_of_two_the_one_behind_is_told_from_one_that_invents(nodes: Open, egress_of: Open) -> None:
    behind, ahead = nodes(head=50), nodes(head=100)
    assert egress_of(pool(behind.url, ahead.url)).call("eth_blockNumber")["result"] == hex(100)
    invents = nodes(head=100, always={"eth_blockNumber": Fault(result=hex(5000))})
    honest = nodes(head=100)
    egress = egress_of(pool(invents.url, honest.url))
    assert egress.call("eth_blockNumber")["result"] == hex(100)


@pytest.mark.parametrize("head", [1000, 750], ids=["at the head", "behind"])
@pytest.mark.parametrize("ranked", [True, False])
def test_one_that_contradicts_the_others_is_not_asked_for_old_blocks_either(
    nodes: Open, egress_of: Open, ranked: bool, head: int
) -> None:
    other = nodes(head=head, history="other", forks_at=600)
    second, third = nodes(head=1000), nodes(head=1000)
    egress = egress_of(pool(other.url, second.url, third.url, ranked=ranked))

    def hashes(_: int) -> set[str]:
        asked = [call("eth_getBlockByNumber", hex(700 + i), False, call_id=i) for i in range(8)]
        answers = egress.post("main", asked).json()
        return {answer["result"]["hash"] for answer in answers}

    with ThreadPoolExecutor(8) as clients:
        found = set().union(*clients.map(hashes, range(40)))
    assert found == {second.hash(700 + i) for i in range(8)}
    assert egress.states() == {"a": "contradicts", "b": "ok", "c": "ok"}
    # Nobody else is left: an error, not other rows.
    second.always = third.always = {"eth_getBlockByNumber": HTML, "eth_blockNumber": HTML}
    error = egress.call("eth_getBlockByNumber", hex(700), False)["error"]
    assert error["code"] == -32050
    told = f"a ({other.url}) is not asked: its blocks are not those of most providers"
    assert told in error["message"]


def test_one_that_contradicts_the_others_is_not_asked_about_recent_blocks(
    nodes: Open, egress_of: Open, eventually: Eventually
) -> None:
    other, second, third = nodes(history="other", forks_at=90), nodes(), nodes()
    egress = egress_of(pool(other.url, second.url, third.url))
    eventually(lambda: egress.states()["a"] == "contradicts", "it is noticed")
    found = egress.call("eth_getBlockByNumber", hex(98), False)["result"]
    assert found["hash"] == second.hash(98)
    other.history = "main"
    eventually(lambda: egress.states()["a"] == "ok", "it is believed again")


def test_questions_about_the_tip_stay_with_one_provider(
    nodes: Open, egress_of: Open, eventually: Eventually
) -> None:
    first, second = nodes(), nodes()
    egress = egress_of(pool(first.url, second.url, ranked=False))
    for _ in range(5):
        egress.call("eth_gasPrice")
    assert egress.pools()["main"]["leader"] == "a"
    first.always["eth_gasPrice"] = first.always["eth_blockNumber"] = Fault(500)
    eventually(lambda: egress.states()["a"] == "down", "the leader is down")
    egress.call("eth_gasPrice")
    first.always.clear()
    eventually(lambda: egress.states()["a"] == "ok", "it is back")
    for _ in range(5):
        egress.call("eth_gasPrice")
    assert (first.times("eth_gasPrice"), second.times("eth_gasPrice")) == (5, 6)


def test_null_is_only_answered_when_nobody_has_the_block(nodes: Open, egress_of: Open) -> None:
    forgetful, second = nodes(always={"eth_getBlockByNumber": NULL}), nodes()
    egress = egress_of(pool(forgetful.url, second.url))
    assert egress.call("eth_getBlockByNumber", "0x5", True)["result"]["number"] == "0x5"
    asked = [call("eth_getBlockByNumber", hex(i), True, call_id=i) for i in range(3)]
    answers = egress.post("main", asked).json()
    assert [answer["result"]["number"] for answer in answers] == ["0x0", "0x1", "0x2"]
    before = second.times("eth_getBlockByNumber")
    assert egress.call("eth_getBlockByNumber", hex(101), True)["result"] is None
    assert second.times("eth_getBlockByNumber") - before <= 1


def test_a_method_that_one_does_not_have_is_asked_of_another(nodes: Open, egress_of: Open) -> None:
    missing = Fault(error={"code": -32601, "message": "the method does not exist"})
    first, second = nodes(always={"trace_block": missing}), nodes()
    egress = egress_of(pool(first.url, second.url))
    for _ in range(3):
        assert "result" in egress.call("trace_block", "0x1")
    assert first.times("trace_block") == 1


# Agreement


def test_what_most_say_is_the_answer(nodes: Open, egress_of: Open) -> None:
    liar, second, third = nodes(history="lie", forks_at=0), nodes(), nodes()
    egress = egress_of(pool(liar.url, second.url, third.url))
    found = egress.call("eth_getBlockByNumber", "0x60", False, agree=True)["result"]
    assert found["hash"] == second.hash(0x60)


def test_without_a_majority_there_is_no_answer(nodes: Open, egress_of: Open) -> None:
    first, second = nodes(), nodes(history="lie", forks_at=98)
    egress = egress_of(pool(first.url, second.url))
    error = egress.call("eth_getBlockByNumber", hex(98), False, agree=True)["error"]
    assert error["code"] == -32055
    assert error["message"].startswith("providers disagree")


def test_one_that_contradicted_before_does_not_keep_the_others_from_agreeing(
    nodes: Open, egress_of: Open
) -> None:
    first, second = nodes(), nodes(history="stale", forks_at=80)
    egress = egress_of(pool(first.url, second.url))
    first.history, first.forks_at = "reorg", 100
    found = egress.call("eth_getBlockByNumber", hex(100), False, agree=True)["result"]
    assert found["hash"] == first.hash(100)


def test_when_all_limit_the_rate_that_is_told(nodes: Open, egress_of: Open) -> None:
    first, second = nodes(), nodes()
    egress = egress_of(pool(first.url, second.url))
    assert egress.call("eth_getBlockByNumber", "0x10", False, agree=True)["result"]
    for node in (first, second):
        node.always["eth_getBlockByNumber"] = limited("3600")
    error = egress.call("eth_getBlockByNumber", "0x10", False, agree=True)["error"]
    assert error["code"] == -32005


def test_one_alone_agrees_with_itself(nodes: Open, egress_of: Open) -> None:
    egress = egress_of(pool(nodes().url))
    assert egress.call("eth_getBlockByNumber", "0x60", False, agree=True)["result"]


def test_batches_agree_call_by_call(nodes: Open, egress_of: Open) -> None:
    liar, second, third = nodes(history="lie", forks_at=2), nodes(), nodes()
    egress = egress_of(pool(liar.url, second.url, third.url))
    asked = [call("eth_getBlockByNumber", hex(i), False, call_id=i) for i in range(4)]
    answers = egress.post("main", asked, params={"agree": "majority"}).json()
    assert [answer["result"]["hash"] for answer in answers] == [second.hash(i) for i in range(4)]


def test_the_endpoint_of_a_worker_asks_for_agreement() -> None:
    token = SecretFile("/secrets/token")
    egress = RpcEndpoint("https://localhost:1/pools/main", token, "ca")
    assert egress.agreeing().url == "https://localhost:1/pools/main?agree=majority"
    assert egress.agreeing().agreeing() == egress.agreeing()
    one = RpcEndpoint("https://localhost:1/pools/main?provider=a", token, "ca")
    assert one.agreeing() == one
    node = RpcEndpoint("https://node.example/?key=1")
    assert node.agreeing() == node


def test_each_provider_can_be_asked_for_its_own_word(nodes: Open, egress_of: Open) -> None:
    first, second = nodes(chain_id=5), nodes(head=90, faults={"eth_blockNumber": [HTML]})
    egress = egress_of(pool(first.url, second.url, chain_id=1, max_batch=2))
    told = egress.http.get("/pools/main", headers={"X-Trace-Worker-Token": egress.tokens[0]})
    assert told.json() == {"providers": ["a", "b"]}
    asked = [call("eth_chainId", call_id=i) for i in range(3)]
    answers = egress.post("main", asked, params={"provider": "a"}).json()
    assert [answer["result"] for answer in answers] == ["0x5"] * 3
    answer = egress.post("main", call("eth_blockNumber"), params={"provider": "b"}).json()
    assert answer["result"] == hex(90)


# Who may ask, and what


def test_nobody_is_answered_without_the_workers_token(nodes: Open, egress_of: Open) -> None:
    node = nodes()
    egress = egress_of(pool(node.url))
    for token in ("", "wrong", USER_TOKEN):
        assert egress.post("main", call(*ASKED), token=token).status_code == 401
    assert node.times(BALANCE) == 0
    for path in ("/metrics", "/v1/pools"):
        assert egress.http.get(path).status_code == 401
    assert egress.http.get("/healthz").json() == {"status": "ok"}


def test_a_users_token_is_sent_as_bearer(nodes: Open, egress_of: Open) -> None:
    egress = egress_of(pool(nodes().url))
    for written, opens in READINGS:
        sent = {"Authorization": written.format(USER_TOKEN)}
        answer = egress.http.get("/v1/pools", headers=sent)
        assert answer.status_code == (200 if opens else 401), written


def test_two_tokens_are_valid_while_one_is_rotated(nodes: Open, egress_of: Open) -> None:
    egress = egress_of(pool(nodes().url))
    egress.tokens[:] = ["new", "old"]
    for token, status in (("new", 200), ("old", 200), ("older", 401)):
        assert egress.post("main", call(*ASKED), token=token).status_code == status


@pytest.mark.parametrize(
    "method",
    [
        "eth_sendRawTransaction",
        "eth_sendTransaction",
        "eth_sign",
        "eth_getWork",
        "admin_peers",
        "personal_unlockAccount",
        "anvil_mine",
        "evm_mine",
        "debug_setHead",
        "eth_getBlock\nByNumber",
        "",
    ],
)
def test_only_methods_that_read_are_relayed(nodes: Open, egress_of: Open, method: str) -> None:
    node = nodes()
    egress = egress_of(pool(node.url))
    for body in (call(method), [call(*ASKED), call(method)]):
        answer = egress.post("main", body).json()
        assert answer["error"]["code"] in (-32052, -32600)
    assert node.times(method) == node.times(BALANCE) == 0


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[]", b"5", b'{"method": 5}', b"\xff", b"[[]]"]
)
def test_what_is_not_json_rpc_is_refused(nodes: Open, egress_of: Open, body: bytes) -> None:
    egress = egress_of(pool(nodes().url))
    headers = {"X-Trace-Worker-Token": egress.tokens[0]}
    answer = egress.http.post("/pools/main", content=body, headers=headers)
    assert answer.json()["error"]["code"] in (-32700, -32600)


def test_an_unknown_pool_or_parameter_is_named(nodes: Open, egress_of: Open) -> None:
    egress = egress_of(pool(nodes().url))
    unknown = egress.post("nope", call(*ASKED))
    assert unknown.status_code == 404
    assert "known: main" in unknown.json()["detail"]
    assert egress.post("main", call(*ASKED), params={"agree": "all"}).status_code == 422
    assert egress.post("main", call(*ASKED), params={"provider": "z"}).status_code == 422
    headers = {"X-Trace-Worker-Token": egress.tokens[0]}
    assert egress.http.put("/pools/main", headers=headers).status_code == 405


def test_the_figures_tell_what_happened(nodes: Open, egress_of: Open) -> None:
    first, second = nodes(faults={BALANCE: [HTML]}), nodes(head=98)
    egress = egress_of(pool(first.url, second.url), timing=QUICK)
    egress.call(*ASKED)
    text = egress.http.get("/metrics", headers={"Authorization": f"Bearer {USER_TOKEN}"}).text
    assert 'trace_rpc_errors_total{code="not_json",pool="main",provider="a"} 1.0' in text
    assert 'trace_rpc_retries_total{pool="main"} 1.0' in text
    assert 'trace_rpc_head_block{pool="main",provider="a"} 100.0' in text
    assert 'trace_rpc_answer_seconds_count{pool="main",provider="b"}' in text
