from __future__ import annotations

import gzip
import itertools
import json
import traceback
from pathlib import Path

import pytest

from tests.support.corpus import corpus
from tests.support.scripted_rpc import HANG, HANG_UP, Raw, RpcError, scripted_rpc
from trace_platform.domain.errors import (
    InvalidConfig,
    MalformedBlock,
    RpcUnreachable,
    TraceError,
    WrongChain,
)
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.operators.evm.rpc import RpcClient

KEY = "s3cr3t-key-0123456789"


class Clock:
    """Remembers what the client would have slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def echo(method: str, params: list[object]) -> object:
    return params[0] if params else method


@corpus(
    "fault",
    [
        Raw(status=429),
        Raw(status=503),
        Raw(body=b"<html>gateway</html>"),
        Raw(body=b'[{"id": 0, "resu'),
        HANG_UP,
        Raw(body=b'{"id": null, "error": {"code": -32005, "message": "limit exceeded"}}'),
    ],
)
def test_a_passing_fault_is_tried_again(fault: object) -> None:
    clock = Clock()
    with scripted_rpc(echo, fault, fault) as node:
        client = RpcClient(node.url, sleep=clock)
        assert client.call("eth_echo", "hello") == "hello"
        client.close()
    assert len(clock.slept) == 2
    assert clock.slept[1] > 0


def test_retry_after_is_waited_for() -> None:
    clock = Clock()
    with scripted_rpc(echo, Raw(status=429, headers={"Retry-After": "7"})) as node:
        client = RpcClient(node.url, sleep=clock)
        client.call("eth_echo", 1)
        client.close()
    assert clock.slept == [7.0]


def test_a_retry_after_beyond_reason_is_left_to_the_next_attempt() -> None:
    clock = Clock()
    tomorrow = Raw(status=429, headers={"Retry-After": "86400"})
    refusal = pytest.raises(RpcUnreachable, match="HTTP 429")
    with scripted_rpc(echo, tomorrow) as node, refusal as caught:
        RpcClient(node.url, sleep=clock).call("eth_echo", 1)
    assert caught.value.facts["retry_after_s"] == 86400.0
    assert clock.slept == []


def limited(**data: object) -> Raw:
    """As the egress says it."""
    error = {"code": -32005, "message": "every provider limits the rate", "data": data}
    return Raw(body=json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).encode())


def test_the_pause_that_the_egress_asks_for_is_waited_for() -> None:
    clock = Clock()
    with scripted_rpc(echo, limited(retry_after_s=40)) as node:
        client = RpcClient(node.url, sleep=clock)
        assert client.call("eth_echo", 1) == 1
        client.close()
    assert clock.slept == [40.0]


def test_pauses_beyond_patience_are_left_to_the_next_attempt() -> None:
    clock = Clock()
    with scripted_rpc(echo, *[limited(retry_after_s=40)] * 4) as node:
        client = RpcClient(node.url, sleep=clock)
        with pytest.raises(RpcUnreachable, match="limits the rate") as caught:
            client.call("eth_echo", 1)
        client.close()
    assert clock.slept == [40.0]
    assert caught.value.facts["retry_after_s"] == 40.0


@pytest.mark.parametrize("said", ["soon", None, -7, [1], {"s": 1}])
def test_a_pause_that_is_none_changes_nothing(said: object) -> None:
    clock = Clock()
    with scripted_rpc(echo, limited(retry_after_s=said)) as node:
        client = RpcClient(node.url, sleep=clock)
        assert client.call("eth_echo", 1) == 1
        client.close()
    assert 0 < clock.slept[0] < 1


def test_a_pause_of_ages_is_one_of_a_day() -> None:
    with scripted_rpc(echo, limited(retry_after_s=10**400)) as node:
        client = RpcClient(node.url, sleep=Clock())
        with pytest.raises(RpcUnreachable) as caught:
            client.call("eth_echo", 1)
        client.close()
    assert caught.value.facts["retry_after_s"] == 86_400.0


def test_an_answer_that_never_ends_is_given_up() -> None:
    looks = itertools.count(step=200)  # seconds pass between two pieces
    body = b" " * (8 << 20) + b'{"id": 0, "result": 1}'
    with scripted_rpc(echo, Raw(body=body)) as node:
        client = RpcClient(node.url, timeout_s=20, now=lambda: next(looks))
        with pytest.raises(RpcUnreachable, match="all of its answer within 100 s"):
            client.call("eth_echo", 1)
        client.close()


def test_a_large_answer_is_read_whole_and_its_connection_used_again() -> None:
    body = b" " * (8 << 20) + b'{"id": 0, "result": 1}'
    with scripted_rpc(echo, Raw(body=body)) as node:
        client = RpcClient(node.url)
        assert client.call("eth_echo", 2) == 1
        connection = client._idle[0].sock
        assert client.call("eth_echo", 2) == 2
        assert client._idle[0].sock is connection
        client.close()


def test_faults_that_last_end_after_bounded_tries() -> None:
    clock = Clock()
    with scripted_rpc(echo, *[Raw(status=502)] * 9) as node:
        with pytest.raises(RpcUnreachable, match="HTTP 502"):
            RpcClient(node.url, sleep=clock).call("eth_echo", 1)
        assert node.requests == 4


def test_a_node_that_hangs_is_given_up_after_the_timeout() -> None:
    with scripted_rpc(echo, HANG) as node:
        client = RpcClient(node.url, timeout_s=0.05, backoff_s=())
        with pytest.raises(RpcUnreachable, match=r"did not answer within 0\.05 s"):
            client.call("eth_echo", 1)


def test_a_port_with_nobody_behind_it_is_unreachable() -> None:
    with scripted_rpc(echo) as node:
        gone = node.url
    with pytest.raises(RpcUnreachable, match="Connection refused") as caught:
        RpcClient(gone, sleep=Clock()).call("eth_echo", 1)
    assert caught.value.retryable
    assert caught.value.hint
    assert caught.value.is_outage, "no work is to blame for it"


@pytest.mark.parametrize(("code", "is_outage"), [(-32050, True), (-32000, False)])
def test_a_pool_where_nobody_answers_is_an_outage_and_a_refusal_is_none(
    code: int, is_outage: bool
) -> None:
    with scripted_rpc(lambda *_: RpcError(code, "no provider of pool 'mainnet' answers")) as node:
        client = RpcClient(node.url, sleep=Clock())
        with pytest.raises(RpcUnreachable, match="no provider of pool 'mainnet'") as caught:
            client.call("eth_echo", 1)
        client.close()
    assert caught.value.is_outage is is_outage


def test_a_connection_that_the_node_closed_meanwhile_costs_no_wait() -> None:
    clock = Clock()
    with scripted_rpc(echo) as node:
        client = RpcClient(node.url, sleep=clock)
        client.call("eth_echo", 1)
        node.faults.append(HANG_UP)
        assert client.call("eth_echo", 2) == 2
        client.close()
    assert clock.slept == []


def test_another_chain_is_named_with_both_ids_and_not_tried_again() -> None:
    with scripted_rpc(lambda *_: "0x1") as node:
        client = RpcClient(node.url)
        with pytest.raises(WrongChain, match=r"asks for chain 31337.*serves chain 1") as caught:
            client.check_chain(31337)
        client.close()
    assert not caught.value.retryable


def test_the_egress_is_called_by_the_pool_that_it_stands_for(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("any")
    token = SecretFile(str(tmp_path / "token"))
    said = {"code": -32000, "message": "no provider of pool 'mainnet' answers"}
    refusal = Raw(body=json.dumps({"id": 0, "error": said}).encode())
    with scripted_rpc(lambda *_: "0x1", refusal) as node:
        egress = RpcEndpoint(f"{node.url}/pools/mainnet", token)
        client = RpcClient(egress)
        with pytest.raises(RpcUnreachable, match=r"^pool mainnet refuses .* of pool 'mainnet' ans"):
            client.call("eth_chainId")
        with pytest.raises(WrongChain, match="asks for chain 5, pool mainnet serves chain 1"):
            client.check_chain(5)
        client.close()
    one = RpcEndpoint("https://localhost:1/pools/mainnet?provider=own%20node", token)
    assert one.shown == "pool mainnet/own node"
    assert RpcEndpoint("https://node/key").shown == "https://node:443"


@corpus("said", [None, 7, "mainnet", "1", " 0x1", "0x0_1", hex(2**63)])
def test_a_chain_id_that_is_no_number_is_malformed(said: object) -> None:
    with scripted_rpc(lambda *_: said) as node:
        client = RpcClient(node.url)
        with pytest.raises(MalformedBlock, match="eth_chainId"):
            client.check_chain(1)
        client.close()


def test_answers_are_put_in_the_order_of_the_calls() -> None:
    from trace_platform.operators.evm import rpc

    swapped = b'[{"id": 1, "result": "b"}, {"id": 0, "result": "a"}]'
    with scripted_rpc(echo, Raw(body=swapped)) as node:
        client = RpcClient(node.url)
        answers = client.batch([("m", ()), ("m", ())], rpc._any_batch)
        client.close()
    assert [a.result for a in answers] == ["a", "b"]


def test_a_batch_with_an_answer_missing_is_malformed() -> None:
    from trace_platform.operators.evm import rpc

    with scripted_rpc(echo, Raw(body=b'[{"id": 0, "result": "a"}]')) as node:
        client = RpcClient(node.url)
        with pytest.raises(MalformedBlock, match="1 of the 2 calls"):
            client.batch([("m", ()), ("m", ())], rpc._any_batch)
        client.close()


@pytest.mark.parametrize("twice", [b"0", b"1"])
def test_a_call_that_is_answered_twice_is_malformed(twice: bytes) -> None:
    from trace_platform.operators.evm import rpc

    body = (
        b'[{"id": 0, "result": "a"}, {"id": 1, "result": "b"}, {"id": ' + twice + b', "result": 1}]'
    )
    with scripted_rpc(echo, Raw(body=body)) as node:
        client = RpcClient(node.url)
        with pytest.raises(MalformedBlock, match="answered a call of a batch twice") as caught:
            client.batch([("m", ()), ("m", ())], rpc._any_batch)
        client.close()
    assert caught.value.retryable


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>502 Bad Gateway</body></html>",
        b'{"id": 0, "result": "0x1',
        b"",
        b"\xff\xfe\x00",
    ],
)
def test_a_page_that_stays_is_named_and_left_to_the_next_attempt(body: bytes) -> None:
    with scripted_rpc(echo, *[Raw(body=body)] * 4) as node:
        client = RpcClient(node.url, sleep=Clock())
        with pytest.raises(RpcUnreachable, match="something that is not JSON") as caught:
            client.call("m")
        client.close()
    assert caught.value.retryable


@pytest.mark.parametrize("body", [b"null", b"7", b'"fine"', b"[null]", b"[[]]"])
def test_json_that_is_no_answer_is_malformed(body: bytes) -> None:
    with scripted_rpc(echo, *[Raw(body=body)] * 4) as node:
        client = RpcClient(node.url, sleep=Clock())
        with pytest.raises(MalformedBlock, match="malformed answer") as caught:
            client.call("m")
        client.close()
    assert caught.value.retryable


def test_packed_answers_are_unpacked() -> None:
    body = gzip.compress(b'{"id": 0, "result": "packed"}')
    with scripted_rpc(echo, Raw(body=body, headers={"Content-Encoding": "gzip"})) as node:
        client = RpcClient(node.url)
        assert client.call("m") == "packed"
        client.close()


def test_userinfo_is_sent_as_a_login() -> None:
    with scripted_rpc(echo) as node:
        client = RpcClient(node.url.replace("://", "://me:pw%40x@"))
        client.call("m")
        client.close()
        assert node.headers[0]["Authorization"] == "Basic bWU6cHdAeA=="


def _all_text(error: TraceError) -> str:
    return "".join(traceback.format_exception(error)) + repr((error.hint, error.facts))


@corpus(
    "fault",
    [
        Raw(status=401),
        Raw(status=404),
        Raw(status=302, headers={"Location": f"http://x/{KEY}"}),
        Raw(status=500),
        Raw(body=b"not json"),
        Raw(body=b'{"id": 0, "result": 1, "error": "no object"}'),
        Raw(body=b'{"id": 0, "error": {"code": 1, "message": "bad key ' + KEY.encode() + b'"}}'),
        HANG_UP,
    ],
)
@corpus("place", ["/v3/{key}", "/?apikey={key}", "user:{key}@"])
def test_no_error_ever_shows_the_key(fault: object, place: str) -> None:
    with scripted_rpc(echo, *[fault] * 4) as node:
        part = place.format(key=KEY)
        url = node.url.replace("://", f"://{part}") if "@" in part else node.url + part
        client = RpcClient(url, sleep=Clock())
        with pytest.raises(TraceError) as caught:
            client.call("eth_echo", 1)
        client.close()
        assert KEY not in _all_text(caught.value)
        assert f"http://127.0.0.1:{node.port}" in caught.value.message


@corpus(
    "url",
    ["", "ftp://host/", f"http://host:{KEY}/", KEY, "http:///x", f"http://h/é{KEY}", "http://h/ x"],
)
def test_a_url_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        RpcClient(url)
    assert KEY not in _all_text(caught.value)


def test_a_refused_call_says_what_the_node_said() -> None:
    with scripted_rpc(lambda *_: RpcError(-32000, "archive\n  required")) as node:
        client = RpcClient(node.url)
        with pytest.raises(RpcUnreachable, match="refuses eth_x: archive required"):
            client.call("eth_x")
        client.close()
