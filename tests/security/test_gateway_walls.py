"""The public door: what is not listed does not exist, other sites and made-up hosts open nothing,
and no more of a request or an answer comes through than docs/gateway.md says."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from docs.generate.services import DISPATCHER, QUERY, RPC
from tests.support.http_server import http_server
from tests.support.served_gateway import (
    OWNER_TOKEN,
    SERVICE_TOKEN,
    Answer,
    ServedGateway,
    served_gateway,
)
from trace_platform.app.instance.query_users import QueryUsers
from trace_platform.gateway.pass_on import MAX_BODY_BYTES
from trace_platform.gateway.routes import SERVICE, description
from trace_platform.gateway.serve import Allowance

CHANGING = ("post", "put", "patch", "delete")
# Written in ways that some server reads as the plain path.
SPELLINGS = (
    "{}",
    "/{}",
    "{}/",
    "{}?x=1",
    "{}%00",
    "{};a=b",
    "{}%3Fx",
    "/v1/../{}",
    "/v1/%2e%2e{}",
    "/assets/..{}",
    "/v1/datasets/..%2f..{}",
    "/v1/tasks/..%2F..%2F..{}/why",
    "/v1/tasks/%2e%2e{}",
    "/v1/tasks/..%5c..{}",
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGateway]:
    with served_gateway(tmp_path_factory.mktemp("gateway")) as served:
        yield served


@pytest.fixture
def gateway(running: ServedGateway) -> ServedGateway:
    running.behind.arrived.clear()
    running.behind.answer = Answer()
    return running


def _private() -> list[tuple[str, str]]:
    """Every operation that neither a user's token nor a webhook's signature opens."""
    listed = json.loads(description())["paths"]
    passed_on = {
        (operation[SERVICE], operation["x-trace-path"], method)
        for methods in listed.values()
        for method, operation in methods.items()
        if SERVICE in operation
    }
    return [
        (method.upper(), path)
        for name, service in (("dispatcher", DISPATCHER), ("query", QUERY), ("rpc", RPC))
        for path, methods in service.describe()["paths"].items()
        for method in methods
        if (name, path, method) not in passed_on
        # The gateway has these for itself.
        and path not in ("/healthz", "/openapi.json")
    ]


def test_what_workers_and_tasks_call_does_not_exist_here(gateway: ServedGateway) -> None:
    private = _private()
    assert len(private) > 20
    assert {path.split("/")[1] for _, path in private} >= {"internal", "v1"}
    secrets = gateway.as_program() | {
        "X-Trace-Service-Token": SERVICE_TOKEN,
        "X-Trace-Worker-Token": SERVICE_TOKEN,
    }
    answered = set()
    for method, path in private:
        filled = re.sub(r"\{[^}]+\}", "0192f0c4-0000-7000-8000-000000000000", path)
        for headers in (secrets, gateway.as_page()):
            answer = gateway.http.request(method, filled, headers=headers, content=b"{}")
            # Another method of the same path may be for users.
            assert answer.status_code in (404, 405), (method, path, answer.status_code)
            answered.add(answer.status_code)
    assert 404 in answered
    assert gateway.behind.arrived == []


@pytest.mark.parametrize("path", ["/internal/tasks/claim", "/v1/task/heartbeat", "/metrics"])
def test_no_spelling_of_a_private_path_gets_through(gateway: ServedGateway, path: str) -> None:
    for spelling in SPELLINGS:
        for method in ("GET", "POST"):
            head = (
                f"{method} {spelling.format(path)} HTTP/1.1\r\nHost: localhost:{gateway.port}\r\n"
                f"Authorization: Bearer {OWNER_TOKEN}\r\nConnection: close\r\n\r\n"
            )
            answer = gateway.raw(head.encode())
            status = int(answer.split()[1])
            assert status in (400, 404, 405), (method, spelling, status)
    assert gateway.behind.arrived == []


def test_a_parameter_is_one_piece_there_as_well(gateway: ServedGateway) -> None:
    for piece in ("..", "%2e%2e", "a%2fb", "a%5Cb", "%00", "a%0d%0aX:%201"):
        head = (
            f"GET /v1/tasks/{piece} HTTP/1.1\r\nHost: localhost:{gateway.port}\r\n"
            f"Authorization: Bearer {OWNER_TOKEN}\r\nConnection: close\r\n\r\n"
        )
        assert int(gateway.raw(head.encode()).split()[1]) in (400, 404), piece
    assert gateway.behind.arrived == []


def test_two_requests_in_one_are_never_one_for_the_gateway_and_two_behind(
    gateway: ServedGateway,
) -> None:
    inner = b"POST /internal/tasks/claim HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    for lengths in (
        [b"Content-Length: 0", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(inner)],
        [b"Content-Length: 0", b"Content-Length: %d" % len(inner)],
        [b"Transfer-Encoding: chunked, identity"],
        [b"Transfer-Encoding : chunked"],
    ):
        head = b"\r\n".join(
            [
                b"POST /v1/query HTTP/1.1",
                b"Host: localhost:%d" % gateway.port,
                b"Authorization: Bearer " + OWNER_TOKEN.encode(),
                *lengths,
                b"\r\n",
            ]
        )
        last = b"GET /healthz HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n"
        gateway.raw(head + b"0\r\n\r\n" + inner + last % gateway.port)
    assert not any("/internal" in each.target for each in gateway.behind.arrived)
    assert not any(b"internal" in each.body for each in gateway.behind.arrived)


def test_only_what_is_listed_of_a_request_and_an_answer_goes_through(
    gateway: ServedGateway,
) -> None:
    gateway.behind.answer = Answer(
        headers=[
            ("Content-Type", "application/json"),
            ("X-Trace-Rows", "3"),
            ("Set-Cookie", "mine=1"),
            ("Server", "inside"),
            ("Access-Control-Allow-Origin", "*"),
            ("Location", "https://elsewhere.invalid"),
            ("Content-Security-Policy", "default-src *"),
        ]
    )
    sent = gateway.as_page() | {
        "X-Trace-Service-Token": SERVICE_TOKEN,
        "X-Trace-Worker-Token": "w",
        "X-Forwarded-For": "10.0.0.1",
        "Forwarded": "for=10.0.0.1",
        "X-Trace-Org": "another",
        "X-Request-Id": "abc-1",
    }
    answer = gateway.http.get("/v1/tasks", headers=sent)
    (seen,) = gateway.behind.arrived
    assert seen.headers["authorization"] == f"Bearer {OWNER_TOKEN}"
    assert seen.headers["x-request-id"] == "abc-1"
    unwanted = ("cookie", "x-trace-", "forwarded", "x-forwarded", "origin")
    assert not [name for name in seen.headers if name.startswith(unwanted)]
    assert answer.headers["X-Trace-Rows"] == "3"
    assert answer.headers["X-Request-Id"] == "abc-1"
    assert answer.headers["Content-Security-Policy"] == (
        "default-src 'none'; frame-ancestors 'none'"
    )
    for name in ("set-cookie", "server", "access-control-allow-origin", "location"):
        assert name not in answer.headers


def test_a_request_id_of_the_callers_is_a_word_or_not_taken(gateway: ServedGateway) -> None:
    for given in ("a" * 65, "a b", "<script>", "ä"):
        answer = gateway.http.get(
            "/v1/tasks", headers=gateway.as_program() | {"X-Request-Id": given.encode()}
        )
        assert answer.headers["X-Request-Id"] != given
        assert re.fullmatch(r"[0-9a-f-]{36}", answer.headers["X-Request-Id"])


def test_another_site_changes_nothing_with_our_cookie(gateway: ServedGateway) -> None:
    page = gateway.as_page()
    changing = [
        (method, re.sub(r"\{[^}]+\}", "a", path))
        for path, methods in json.loads(description())["paths"].items()
        for method in methods
        if method in CHANGING and "webhook" not in str(methods[method].get("security"))
    ]
    assert len(changing) > 20
    spoilt = [
        {"X-Trace-CSRF": ""},
        {"Origin": "https://evil.invalid"},
        {"Origin": "null"},
        {"Origin": f"http://localhost:{gateway.port + 1}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ]
    for method, path in changing:
        for each in spoilt:
            answer = gateway.http.request(method, path, headers=page | each, content=b"{}")
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (path, each)
    assert gateway.behind.arrived == []
    assert gateway.http.get("/v1/session", headers=page).status_code == 200


def test_another_site_reads_nothing_with_our_cookie(gateway: ServedGateway) -> None:
    for site in ("cross-site", "same-site"):
        answer = gateway.http.get("/v1/tasks", headers=gateway.as_page() | {"Sec-Fetch-Site": site})
        assert answer.status_code == 403
    answer = gateway.http.options(
        "/v1/tasks",
        headers={"Origin": "https://evil.invalid", "Access-Control-Request-Method": "POST"},
    )
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert gateway.behind.arrived == []


def test_no_page_may_be_shown_in_a_frame_or_load_from_elsewhere(gateway: ServedGateway) -> None:
    for path in ("/", "/login", "/query", "/v1/tasks", "/nothing.js", "/healthz"):
        answer = gateway.http.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy, path
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_a_name_that_somebody_pointed_here_opens_nothing(gateway: ServedGateway) -> None:
    for host in ("evil.invalid", f"evil.invalid:{gateway.port}", "localhost", "localhost:1", ""):
        for path in ("/v1/tasks", "/", "/login"):
            answer = gateway.http.get(path, headers=gateway.as_page() | {"Host": host})
            assert answer.status_code == 421, (host, path)
    assert gateway.behind.arrived == []


def test_who_has_no_session_and_no_token_is_told_how_to_get_one(gateway: ServedGateway) -> None:
    for headers in (
        {},
        {"Cookie": f"{gateway.cookie}=nothing"},
        {"Cookie": f"{gateway.cookie}={'a' * 43}"},
        {"Cookie": '=;;;"\\'},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {OWNER_TOKEN}"},
        # Whoever sends a token is judged by it alone.
        gateway.as_page() | {"Authorization": "Bearer wrong"},
    ):
        answer = gateway.http.get("/v1/tasks", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), headers
        assert "trace login-link" in answer.json()["hint"]
    assert gateway.behind.arrived == []


def test_a_link_opens_one_session_whoever_is_first(gateway: ServedGateway) -> None:
    code = gateway.sessions.make_code()
    headers = {"X-Trace-CSRF": "1"}

    def log_in(_: int) -> httpx.Response:
        return httpx.post(
            f"{gateway.url}/v1/session", json={"code": code}, headers=headers, trust_env=False
        )

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(log_in, range(8)))
    assert sorted(each.status_code for each in answers) == [200] + [401] * 7
    (opened,) = (each for each in answers if each.status_code == 200)
    cookie = opened.headers["set-cookie"]
    assert cookie.startswith(f"{gateway.cookie}=")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    token = cookie.partition("=")[2].partition(";")[0]
    on_disk = [path.name + path.read_text() for path in (gateway.home.secrets / "logins").iterdir()]
    assert on_disk
    assert not [text for text in on_disk if token in text or code in text]


def test_who_serves_another_port_of_this_host_gets_a_cookie_that_opens_nothing(
    gateway: ServedGateway,
) -> None:
    """As browsers do, this client sends cookies to a host, whatever the port."""
    with http_server() as neighbour, httpx.Client(trust_env=False) as browser:
        code = gateway.sessions.make_code()
        browser.post(
            f"{gateway.url}/v1/session", json={"code": code}, headers={"X-Trace-CSRF": "1"}
        )
        browser.get(f"http://localhost:{neighbour.port}/")
        (seen,) = neighbour.asked
    assert seen.headers["cookie"].startswith(f"{gateway.cookie}=")
    for key in ("", "1", seen.headers["cookie"].partition("=")[2]):
        stolen = {"Cookie": seen.headers["cookie"], "Origin": gateway.url, "X-Trace-CSRF": key}
        for method, path in (
            ("GET", "/v1/tasks"),
            ("GET", "/v1/live"),
            ("GET", "/v1/session"),
            ("GET", "/v1/own-queries"),
            ("POST", "/v1/query"),
            ("DELETE", "/v1/session"),
        ):
            answer = gateway.http.request(method, path, headers=stolen)
            assert answer.status_code in (401, 403), (method, path, key)
    assert gateway.behind.arrived == []


def test_a_browser_downloads_an_export_by_itself(gateway: ServedGateway) -> None:
    page = gateway.as_page()
    del page["X-Trace-CSRF"]
    path = "/v1/exports/0192f0c4-0000-7000-8000-000000000000"
    assert gateway.http.get(path, headers=page).status_code == 200
    assert gateway.http.get(path, headers=page | {"Sec-Fetch-Site": "same-site"}).status_code == 403


def test_wrong_codes_of_strangers_keep_nobody_out(gateway: ServedGateway) -> None:
    headers = {"X-Trace-CSRF": "1"}
    wrong = [
        gateway.http.post("/v1/session", json={"code": "a" * 43}, headers=headers).status_code
        for _ in range(60)
    ]
    assert set(wrong) == {401, 429}
    code = gateway.sessions.make_code()
    answer = gateway.http.post("/v1/session", json={"code": code}, headers=headers)
    assert answer.status_code == 200


def test_who_may_query_does_not_see_what_runs_nor_takes_the_streams_of_those_who_may(
    gateway: ServedGateway,
) -> None:
    token = QueryUsers(gateway.home).add("bob")
    answer = gateway.http.get("/v1/live", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_a_code_counts_only_from_the_gateways_own_page(gateway: ServedGateway) -> None:
    code = gateway.sessions.make_code()
    for headers in (
        {},
        {"X-Trace-CSRF": "1", "Origin": "https://evil.invalid"},
        {"X-Trace-CSRF": "1", "Sec-Fetch-Site": "cross-site"},
    ):
        answer = gateway.http.post("/v1/session", json={"code": code}, headers=headers)
        assert answer.status_code == 403
    whole = f"{gateway.url}/login#{code}"
    answer = gateway.http.post("/v1/session", json={"code": whole}, headers={"X-Trace-CSRF": "1"})
    assert answer.status_code == 200


def test_who_logged_out_is_out_everywhere(gateway: ServedGateway) -> None:
    page = gateway.as_page()
    assert gateway.http.get("/v1/tasks", headers=page).status_code == 200
    assert gateway.http.delete("/v1/session", headers=page).status_code == 204
    assert gateway.http.get("/v1/tasks", headers=page).status_code == 401
    assert gateway.http.get("/v1/session", headers=page).status_code == 401


def test_a_body_that_is_too_large_is_refused_and_not_collected(gateway: ServedGateway) -> None:
    announced = (
        f"POST /v1/query HTTP/1.1\r\nHost: localhost:{gateway.port}\r\n"
        f"Authorization: Bearer {OWNER_TOKEN}\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n"
        "Connection: close\r\n\r\n"
    )
    assert int(gateway.raw(announced.encode()).split()[1]) == 413
    assert gateway.behind.arrived == []

    def parts() -> Iterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 2**20 + 1):
            yield b"x" * 2**20

    answer = gateway.http.post("/v1/query", headers=gateway.as_program(), content=parts())
    assert answer.status_code == 413
    assert len(gateway.behind.arrived) == 0


def test_a_service_that_is_away_is_named(tmp_path: Path) -> None:
    with served_gateway(tmp_path) as gateway:
        gateway.behind.shutdown()
        gateway.behind.server_close()
        answer = gateway.http.get("/v1/tasks", headers=gateway.as_program())
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.json()["facts"]["service"] == "dispatcher"


def test_one_caller_has_so_many_requests_under_way(tmp_path: Path) -> None:
    with served_gateway(tmp_path, allowance=Allowance(at_once=1)) as gateway:
        waiting = threading.Event()
        gateway.behind.answer = Answer(wait=waiting)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(_tasks, gateway)
            while not gateway.behind.arrived:
                assert not first.done()
            refused = _tasks(gateway)
            waiting.set()
            assert first.result().status_code == 200
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
    assert refused.headers["Retry-After"] == "1"
    assert len(gateway.behind.arrived) == 1


def test_one_caller_has_so_many_requests_a_second(tmp_path: Path) -> None:
    allowance = Allowance(requests_per_second=0.001, burst=2)
    with served_gateway(tmp_path, allowance=allowance) as gateway:
        answers = [_tasks(gateway) for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert int(answers[2].headers["Retry-After"]) >= 1
    assert len(gateway.behind.arrived) == 2


def test_senders_that_nobody_knows_take_no_room_of_others(tmp_path: Path) -> None:
    """Bodies that do not arrive, from several addresses of this machine."""
    allowance = Allowance(at_once=1, all_at_once=2, unproven_at_once=3)
    with served_gateway(tmp_path, allowance=allowance) as gateway, ExitStack() as stack:
        slow = [
            stack.enter_context(_half_a_delivery(gateway, f"127.0.0.{n}")) for n in (2, 3, 4, 5)
        ]
        assert _tasks(gateway).status_code == 200
        answer = gateway.http.post("/v1/hooks/chain/calls", content=b"{}")
        assert answer.status_code == 200
        # Who came first gave way to those after it.
        assert b" 429 " in slow[0].recv(65536)


@contextmanager
def _half_a_delivery(gateway: ServedGateway, address: str) -> Iterator[socket.socket]:
    """Its head was taken, and its body is waited for."""
    head = (
        f"POST /v1/hooks/chain/calls HTTP/1.1\r\nHost: localhost:{gateway.port}\r\n"
        "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n"
    )
    place = ("127.0.0.1", gateway.port)
    with socket.create_connection(place, 60, source_address=(address, 0)) as sender:
        sender.sendall(head.encode())
        assert b" 100 " in sender.recv(65536)
        yield sender


def _tasks(gateway: ServedGateway) -> httpx.Response:
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=60) as client:
        return client.get("/v1/tasks", headers=gateway.as_program())
