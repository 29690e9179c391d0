"""The development chain over real sockets, and as a process of its own."""

from __future__ import annotations

import asyncio
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest
import uvloop

from trace_devchain import DevChain, serve
from trace_devchain.http_server import MAX_BODY_BYTES
from trace_platform.domain.errors import PortInUse

HOST = "127.0.0.1"
CHAIN_ID_CALL = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
CHAIN_ID_ANSWER = b'{"jsonrpc":"2.0","id":1,"result":"0x7a69"}'
RUN_CLI = "import typer; from trace_platform.cli.devchain import devchain; typer.run(devchain)"


@contextmanager
def serving(chain: DevChain, **options: Any) -> Iterator[int]:
    """A server in a thread of its own; gives its port."""
    ready: queue.Queue[int] = queue.Queue()
    loop = uvloop.new_event_loop()
    task = loop.create_task(serve(chain, HOST, 0, on_ready=ready.put, **options))

    def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ready.get(timeout=60)
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(timeout=60)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(DevChain(blocks=100)) as port:
        yield port


@pytest.fixture
def client(port: int) -> Iterator[HTTPConnection]:
    with closing(HTTPConnection(HOST, port, timeout=60)) as connection:
        yield connection


def request(client: HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    client.request(method, path, body)
    response = client.getresponse()
    return response.status, response.read()


def raw(body: bytes, extra: bytes = b"") -> bytes:
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\n" + extra
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def read_until(sock: socket.socket, end: bytes) -> bytes:
    got = b""
    while not got.endswith(end):
        chunk = sock.recv(65536)
        assert chunk, got
        got += chunk
    return got


def read_to_close(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65536), b""))


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=60)


def test_one_connection_serves_many_requests(client: HTTPConnection) -> None:
    assert request(client, "POST", "/", CHAIN_ID_CALL) == (200, CHAIN_ID_ANSWER)
    first = client.sock
    for path in ("/", "/any/path"):
        assert request(client, "POST", path, CHAIN_ID_CALL) == (200, CHAIN_ID_ANSWER)
    assert client.sock is first


def test_large_batch_arrives_whole(client: HTTPConnection) -> None:
    calls = [
        {"jsonrpc": "2.0", "id": n, "method": method, "params": params}
        for n in range(1, 101)
        for method, params in (
            ("eth_getBlockByNumber", [hex(n), True]),
            ("eth_getBlockReceipts", [hex(n)]),
        )
    ]
    status, body = request(client, "POST", "/", json.dumps(calls))
    answers = json.loads(body)
    assert status == 200
    assert [one["id"] for one in answers] == [call["id"] for call in calls]
    chain = DevChain(blocks=100)
    assert answers[198]["result"] == json.loads(chain.full_block(100).body)
    assert answers[199]["result"] == json.loads(chain.receipts(100).body)


def test_health_and_wrong_paths_and_methods(client: HTTPConnection) -> None:
    status, body = request(client, "GET", "/")
    assert (status, json.loads(body)) == (200, {"status": "ok", "chainId": 31337, "head": 100})
    assert request(client, "GET", "/nothing")[0] == 404
    assert request(client, "DELETE", "/")[0] == 405
    assert request(client, "POST", "/", CHAIN_ID_CALL)[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        {"Origin": "https://evil.invalid"},
        {"Origin": "null"},
        {"Host": "evil.invalid"},
        {"Host": "127.0.0.1.evil.invalid:80"},
    ],
)
def test_no_page_of_a_browser_reorganises_the_chain(
    client: HTTPConnection, sent: dict[str, str]
) -> None:
    """Pages may send plain text anywhere, and be at a name that leads to this machine."""
    reorg = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "dev_reorg", "params": [3]})
    client.request("POST", "/", reorg, {"Content-Type": "text/plain"} | sent)
    answer = client.getresponse()
    assert (answer.status, b"browser" in answer.read()) == (403, True)
    assert json.loads(request(client, "GET", "/")[1])["head"] == 100


def test_with_a_key_it_answers_at_its_address_alone() -> None:
    with serving(DevChain(blocks=1), key="k3y") as port:
        client = HTTPConnection(HOST, port, timeout=60)
        for path in ("/", "/k3", "/k3y/", "/K3Y", "/?k3y"):
            for method, body in (("POST", CHAIN_ID_CALL), ("GET", None)):
                status, said = request(client, method, path, body)
                assert (status, b"k3y" in said) == (404, False), path
        assert request(client, "POST", "/k3y", CHAIN_ID_CALL)[0] == 200
        assert request(client, "GET", "/k3y")[0] == 200
        client.close()


def test_malformed_json_is_a_json_rpc_error(client: HTTPConnection) -> None:
    status, body = request(client, "POST", "/", b"{nope")
    assert (status, json.loads(body)["error"]["code"]) == (200, -32700)


def test_pipelined_requests_are_answered_in_order(port: int) -> None:
    calls = [CHAIN_ID_CALL.replace(b'"id":1', b'"id":%d' % n) for n in range(20)]
    with connect(port) as sock:
        sock.sendall(b"".join(map(raw, calls)))
        got = read_until(sock, b'"id":19,"result":"0x7a69"}')
    at = [got.index(b'"id":%d,' % n) for n in range(20)]
    assert at == sorted(at)


def test_chunked_body_in_pieces(port: int) -> None:
    with connect(port) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (CHAIN_ID_CALL[:7], CHAIN_ID_CALL[7:]):
            sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        sock.sendall(b"0\r\n\r\n")
        assert read_until(sock, CHAIN_ID_ANSWER).startswith(b"HTTP/1.1 200 OK\r\n")


def test_expect_continue_is_granted(port: int) -> None:
    with connect(port) as sock:
        whole = raw(CHAIN_ID_CALL, b"expect: 100-continue\r\n")
        head, body = whole.split(b"\r\n\r\n")
        sock.sendall(head + b"\r\n\r\n")
        assert read_until(sock, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert read_until(sock, CHAIN_ID_ANSWER).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_connection_closes_when_the_client_asks(port: int, version: bytes) -> None:
    with connect(port) as sock:
        call = raw(CHAIN_ID_CALL, b"connection: close\r\n").replace(b"HTTP/1.1", b"HTTP/" + version)
        sock.sendall(call)
        assert read_to_close(sock).endswith(CHAIN_ID_ANSWER)


def test_announced_body_over_the_limit_is_refused(port: int) -> None:
    with connect(port) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % 10**12)
        assert read_to_close(sock).startswith(b"HTTP/1.1 413 ")


def test_chunked_body_over_the_limit_is_refused(port: int) -> None:
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    with connect(port) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        # The server hangs up in the middle, long before all of this is sent.
        with pytest.raises(ConnectionError):
            sock.sendall(chunk * (MAX_BODY_BYTES // 0x100000 + 50))


def test_what_is_not_http_is_refused(port: int) -> None:
    with connect(port) as sock:
        sock.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert read_to_close(sock).startswith(b"HTTP/1.1 400 ")


def test_empty_answer_to_a_notification_keeps_the_connection(client: HTTPConnection) -> None:
    assert request(client, "POST", "/", b'{"jsonrpc":"2.0","method":"eth_chainId"}') == (200, b"")
    assert request(client, "POST", "/", CHAIN_ID_CALL) == (200, CHAIN_ID_ANSWER)


def test_port_in_use_is_named(port: int) -> None:
    with pytest.raises(PortInUse) as caught:
        asyncio.run(serve(DevChain(blocks=1), HOST, port))
    assert str(port) in caught.value.message
    assert caught.value.hint


def test_block_time_mines_without_being_asked() -> None:
    with (
        serving(DevChain(blocks=5), block_time_s=0.01) as port,
        closing(HTTPConnection(HOST, port, timeout=60)) as client,
    ):
        # Bounded by the test's timeout: the head must move by itself.
        while json.loads(request(client, "GET", "/")[1])["head"] < 8:
            pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("options", [["--exact-txs", "--prebuild"], ["--seed", "9"]])
def test_command_prints_its_port_and_stops_cleanly(number: int, options: list[str]) -> None:
    command = [sys.executable, "-c", RUN_CLI, "--port", "0", "--blocks", "30", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline().decode()
        port = int(line.split("127.0.0.1:")[1].split()[0])
        with connect(port) as idle, closing(HTTPConnection(HOST, port, timeout=60)) as client:
            assert json.loads(request(client, "GET", "/")[1])["head"] == 30
            process.send_signal(number)
            assert process.wait(timeout=60) == 0
            assert read_to_close(idle) == b""
        assert b"Traceback" not in process.stderr.read()
