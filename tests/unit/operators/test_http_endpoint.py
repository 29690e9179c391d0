"""How an endpoint is asked: patiently, and with a secret that nobody else gets to see."""

from __future__ import annotations

import base64
import gzip
import random
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import ValidationError

from tests.support.http_server import Asked, HttpServer, Reply, http_server
from tests.support.ingested import Ingest
from trace_platform.domain.address_reach import Reach
from trace_platform.domain.errors import EndpointRefused, EndpointUnreachable, TraceError
from trace_platform.drivers import http_endpoint
from trace_platform.drivers.http_endpoint import HttpEndpoint, HttpRequest, Manners
from trace_platform.operators.http.config import Config

SECRET = "k3y/with+signs=and-more"
BEARER = {"type": "bearer", "secret": "items_key"}
IN_QUERY = {"type": "api_key", "name": "api-key", "location": "query", "secret": "items_key"}
BASIC = {"type": "basic", "username": "me", "secret": "items_key"}
BASIC_HEADER = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server() as running:
        yield running


@pytest.fixture
def ingest(tmp_path: Path) -> Ingest:
    return Ingest(tmp_path, secrets={"items_key": SECRET})


def config(server: HttpServer, path: str = "/items", **more: Any) -> Config:
    return Config(**{"url": server.url + path, "types": {"id": "int64"}} | more)


def told(error: TraceError, ingest: Ingest) -> str:
    return f"{error.message} {error.hint} {error.facts} {ingest.log} {ingest.state}"


@pytest.mark.parametrize(
    ("auth", "header", "query"),
    [
        (BEARER, ("authorization", f"Bearer {SECRET}"), {}),
        (BASIC, ("authorization", BASIC_HEADER), {}),
        ({**IN_QUERY, "location": "header"}, ("api-key", SECRET), {}),
        (IN_QUERY, ("x-own", "yes"), {"api-key": SECRET, "a": "1"}),
    ],
)
def test_the_secret_is_sent_as_the_endpoint_wants_it(
    server: HttpServer, ingest: Ingest, auth: Any, header: tuple[str, str], query: dict[str, str]
) -> None:
    server.says([{"id": 1}], etag="x")
    asked = config(server, auth=auth, params={"a": 1}, headers={"X-Own": "yes"})
    ingest.tick(asked)
    ingest.tick(asked)
    for each in server.asked:
        assert each.headers[header[0]] == header[1]
        assert each.query == query | {"a": "1"}
    assert server.asked[1].headers["if-none-match"] == "x"
    assert SECRET not in str(ingest.state)


@pytest.mark.parametrize("auth", [BEARER, IN_QUERY, BASIC])
def test_no_error_repeats_the_secret_also_when_the_server_does(
    server: HttpServer, ingest: Ingest, auth: Any
) -> None:
    def repeating(asked: Asked) -> Reply:
        said = asked.headers.get("authorization") or asked.query["api-key"]
        return Reply(f"no such key: {said} {SECRET}", status=403)

    server.answer = repeating
    with pytest.raises(EndpointRefused, match="answers 403: no such key") as caught:
        ingest.tick(config(server, auth=auth))
    said = told(caught.value, ingest)
    for piece in (SECRET, base64.b64encode(f"me:{SECRET}".encode()).decode(), "k3y"):
        assert piece not in said


@pytest.mark.parametrize("auth", [BEARER, IN_QUERY])
def test_another_host_gets_neither_secret_nor_headers(
    server: HttpServer, ingest: Ingest, auth: Any
) -> None:
    with http_server() as other:
        other.says([{"id": 2}])
        server.answer = lambda _: Reply(status=302, headers={"Location": f"{other.url}/moved?x=1"})
        asked = config(server, auth=auth, headers={"X-Own": "yes"})
        assert ingest.rows(asked)[0] == [{"id": 2}]
        # A page behind this one may lie elsewhere, too.
        link = {"Link": f"<{other.url}/more>; rel=next"}
        server.answer = lambda _: Reply([{"id": 1}], headers=link)
        paged = config(server, auth=auth, paging={"type": "next_link"})
        assert [row["id"] for row in ingest.rows(paged)[0]] == [1, 2]
        for each in other.asked:
            assert SECRET not in str(each)
            assert not {"authorization", "x-own"} & set(each.headers)


def test_the_same_host_is_followed_with_the_secret_once(server: HttpServer, ingest: Ingest) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path == "/items":
            return Reply(status=301, headers={"Location": "/v2/items?a=1"})
        # As some do, the link repeats what was sent.
        more = f"</v2/items?page=2&api-key={asked.query['api-key']}>; rel=next"
        return Reply([{"id": 1}], headers={} if "page" in asked.query else {"Link": more})

    server.answer = answer
    asked = config(server, auth=IN_QUERY, paging={"type": "next_link"})
    assert len(ingest.rows(asked)[0]) == 2
    assert [each.query.get("api-key") for each in server.asked] == [SECRET] * 3
    assert SECRET not in str(ingest.state)


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://example.org/items", "where others can read along"),
        ("ftp://example.org/items", "no address of HTTP"),
        ("/items", "redirects more than 5 times"),
    ],
)
def test_where_an_endpoint_may_not_lead(
    server: HttpServer, ingest: Ingest, location: str, said: str
) -> None:
    server.answer = lambda _: Reply(status=302, headers={"Location": location})
    with pytest.raises(EndpointRefused, match=said):
        ingest.tick(config(server))


def test_an_endpoint_elsewhere_does_not_lead_into_this_machine() -> None:
    with _endpoint("https://example.org/items") as endpoint:
        for place in (
            *("http://127.0.0.1:8080/", "https://localhost/", "http://[::1]/", "https://127.1/"),
            *("https://0.0.0.0:8443/", "https://[::ffff:127.0.0.1]/", "https://2130706433/"),
            # Its neighbours, and what tells a machine of a cloud its secrets.
            *("https://10.0.0.1/", "https://169.254.169.254/latest", "https://[fd00::1]/"),
        ):
            for body in (None, b"{}"):
                with pytest.raises(EndpointRefused, match="into this machine"):
                    endpoint.ask(HttpRequest(place, body), 1_000)
        with pytest.raises(EndpointRefused, match="no address of HTTP"):
            endpoint.led_to("https://example.org/items", "http://[::1/items")
        assert endpoint.led_to("https://example.org/a/b?c=1", "?c=2").endswith("/a/b?c=2")
        endpoint.refuse_unsafe("https://other.example/")


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0x7F000001", "127.1", "0.0.0.0", "[::ffff:127.0.0.1]"),
        *("[::]", "[::127.0.0.1]", "169.254.169.254", "2852039166", "[64:ff9b::a9fe:a9fe]"),
        *("[2002:7f00:1::]", "10.0.0.1", "[fd00::1]", "224.0.0.1"),
    ],
)
def test_no_spelling_of_an_address_leads_from_elsewhere_into_this_machine(host: str) -> None:
    """Asked as a page that is kept from an earlier answer. It is refused before anything is
    connected."""
    with (
        _endpoint("https://192.0.2.1/items") as endpoint,
        # As if the home were of the public network, where no test can be.
        patch.object(HttpEndpoint, "_reach_of_home", lambda _: Reach.PUBLIC),
        pytest.raises(EndpointRefused, match="into this machine"),
    ):
        endpoint.ask(HttpRequest(f"https://{host}:9/items"), 1_000)


def test_what_was_looked_at_is_what_is_asked(server: HttpServer) -> None:
    """A name that leads to another address at the second look-up."""
    answers = [["127.0.0.1"], ["127.0.0.1"], ["192.0.2.1"]]
    with (
        _endpoint("http://127.0.0.2/items") as endpoint,
        patch.object(http_endpoint, "_addresses", lambda *_: answers.pop(0)),
    ):
        found = endpoint.ask(HttpRequest(f"http://rebinding.invalid:{server.port}/items"), 1_000)
    assert found is not None
    assert server.asked[0].headers["host"] == f"rebinding.invalid:{server.port}"


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_few_packed_bytes_do_not_fill_the_memory(
    server: HttpServer, status: int, layers: int
) -> None:
    body = gzip.compress(bytes(300 * 2**20), 1)
    for _ in range(layers - 1):
        body = gzip.compress(body)
    packed = {"Content-Encoding": ", ".join(["gzip"] * layers)}
    server.answer = lambda _: Reply(body, status=status, headers=packed)
    tracemalloc.start()
    with _endpoint(server.url) as endpoint, pytest.raises(TraceError) as caught:
        endpoint.ask(HttpRequest(server.url), 100_000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16 * 2**20
    assert caught.value.code in ("endpoint_refused", "endpoint_unreachable")


def test_a_packed_answer_is_unpacked_whole_or_not_at_all(server: HttpServer) -> None:
    plain = bytes(random.Random(1).randbytes(50_000)) + b"x" * 300_000
    body = gzip.compress(plain)
    packed = {"Content-Encoding": "gzip"}
    replies = [Reply(body, headers=packed)] + [Reply(body[:-9], headers=packed)] * 4
    server.answer = lambda _: replies.pop(0)
    with _endpoint(server.url) as endpoint:
        found = endpoint.ask(HttpRequest(server.url), 1_000_000)
        assert found is not None
        assert found.body == plain
        with pytest.raises(EndpointUnreachable, match="ends within its gzip data"):
            endpoint.ask(HttpRequest(server.url), 1_000_000)


def test_what_is_posted_is_posted_to_no_other_address(server: HttpServer, ingest: Ingest) -> None:
    server.answer = lambda _: Reply(status=307, headers={"Location": "/v2/items"})
    with pytest.raises(EndpointRefused, match="what is posted is posted to no other"):
        ingest.tick(config(server, body={"chain": 1}))
    assert [each.path for each in server.asked] == ["/items"]


def test_a_body_that_is_packed_small_is_no_larger_than_others(
    server: HttpServer, ingest: Ingest
) -> None:
    once = gzip.compress(b"[" + b" " * 30_000_000 + b"]")
    server.says(once, **{"Content-Encoding": "gzip"})
    tracemalloc.start()
    with pytest.raises(EndpointRefused, match=r"there was room for 1\.0 MB"):
        ingest.tick(config(server, max_mb=1))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8_000_000
    # Packed twice, thirty gigabytes are as small.
    server.says(gzip.compress(once), **{"Content-Encoding": "gzip, gzip"})
    with pytest.raises(EndpointUnreachable, match="packed as 'gzip, gzip'"):
        ingest.tick(config(server, max_mb=64))
    halves = gzip.compress(b'[{"id": 1},') + gzip.compress(b'{"id": 2}]')
    server.says(halves, **{"Content-Encoding": "gzip"})
    assert len(ingest.rows(config(server))[0]) == 2
    server.says(halves[:-9], **{"Content-Encoding": "gzip"})
    with pytest.raises(EndpointUnreachable, match="ends within its gzip data"):
        ingest.tick(config(server))


# Patience.


def test_an_endpoint_in_trouble_is_asked_again_and_waited_for_as_it_says(
    server: HttpServer,
) -> None:
    replies = [
        Reply(status=503),
        Reply(status=429, headers={"Retry-After": "7"}),
        Reply([{"id": 1}]),
    ]
    server.answer = lambda _: replies.pop(0)
    waited: list[float] = []
    with _endpoint(server.url, waited) as endpoint:
        assert endpoint.ask(HttpRequest(server.url), 1_000) is not None
    assert waited == [0.5, 7.0]


def test_one_that_wants_long_peace_is_left_to_a_later_attempt(
    server: HttpServer, ingest: Ingest
) -> None:
    server.answer = lambda _: Reply(status=429, headers={"Retry-After": "3600"})
    with pytest.raises(EndpointUnreachable, match=r"answers 429.*asks for 1h") as caught:
        ingest.tick(config(server))
    assert caught.value.facts["retry_after_s"] == 3600
    assert len(server.asked) == 1


def test_one_that_is_away_is_named_without_its_query(server: HttpServer) -> None:
    gone = f"{server.url}/items?name=value"
    waited: list[float] = []
    with http_server() as closed:
        gone = f"{closed.url}/items?name=value"
    with (
        _endpoint(gone, waited) as endpoint,
        pytest.raises(EndpointUnreachable, match=r"/items does not answer: Connection ref") as told,
    ):
        endpoint.ask(HttpRequest(gone), 1_000)
    assert "value" not in told.value.message
    assert waited == [0.5, 1.5, 4.5]


def test_it_is_asked_no_more_often_than_is_said(server: HttpServer) -> None:
    waited: list[float] = []
    with _endpoint(server.url, waited, Manners(requests_per_second=0.01)) as endpoint:
        for _ in range(3):
            endpoint.ask(HttpRequest(server.url), 1_000)
    assert len(waited) == 2
    assert all(90 < each <= 200 for each in waited)


# What is refused before anything is asked.


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("url", "http://example.org/items", "others can read along"),
        ("url", "https://me:pass@example.org/", "a secret belongs into auth"),
        ("url", "example.org", "no address"),
        ("headers", {"Authorization": "Bearer abc"}, "name it in auth"),
        ("headers", {"X-Own": "a\nb"}, "printable ASCII"),
        ("params", {"api_key": "abc"}, "name it in auth"),
        ("auth", {"type": "bearer", "secret": "Bearer abc"}, "never write its value"),
        ("auth", {"type": "basic", "secret": "abc"}, "needs a username"),
        ("types", {"id": "uint256"}, "unknown type"),
        ("types", {"id": "int64", "ID": "int64"}, "differ in case"),
        ("paths", {"ids": "a"}, "names ids, which is no column"),
        ("format", "csv", "of json"),
        ("body", {"filter": [{"api_key": "abc"}]}, "name it in auth"),
        ("body", {"at": float("inf")}, "a finite number"),
        ("graphql", {"query": "{ a }", "variables": {"secret": "abc"}}, "name it in auth"),
    ],
)
def test_a_config_that_cannot_be_right(field: str, value: Any, said: str) -> None:
    given = {"url": "https://example.org/", "types": {"id": "int64"}, "records": "data"}
    with pytest.raises(ValidationError, match=re.escape(said)):
        Config(**given | {field: value})


def test_plain_http_is_asked_where_it_is_said_so() -> None:
    given: dict[str, Any] = {"url": "http://example.org/items", "types": {"id": "int64"}}
    assert Config(**given, allow_http=True).allow_http
    # The address of a token is no secret.
    Config(**given | {"url": "https://example.org", "params": {"token": "0xc02a"}})


def _endpoint(
    url: str, waited: list[float] | None = None, manners: Manners | None = None
) -> HttpEndpoint:
    told = [] if waited is None else waited
    return HttpEndpoint(url, {}, None, manners or Manners(), told.append, lambda: None)
