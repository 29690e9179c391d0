"""Nobody delivers without the secret, and a refusal tells nothing about what is there."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from structlog.testing import capture_logs

from tests.support import lent_apps
from tests.support.control_plane import HOOK_SECRET
from tests.support.corpus import corpus
from tests.support.served_dispatcher import ServedDispatcher
from trace_platform.dispatcher.api import hooks
from trace_platform.domain.webhook_signature import (
    TOLERANCE_S,
    SignatureRefused,
    sign,
    signing_key,
    verify,
)

KEY = signing_key(HOOK_SECRET)
ID, NOW, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
# Made with the published package.
PUBLISHED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
DAG = """
name: hooked
jobs:
  - { name: calls, activation: source, source: { kind: webhook, secret: hook_key } }
  - { name: unset, activation: source, source: { kind: webhook, secret: nobody_set_it } }
  - { name: hands, activation: source, source: { kind: manual } }
"""


def test_signatures_are_those_of_the_standard() -> None:
    assert sign(KEY, ID, NOW, BODY) == PUBLISHED
    verify(KEY, ID, str(NOW), PUBLISHED, BODY, NOW)


def test_one_right_signature_among_several_is_enough() -> None:
    other = sign(b"x" * 24, ID, NOW, BODY)
    verify(KEY, ID, str(NOW), f"{other} v2,abc v1a,xyz {PUBLISHED}", BODY, NOW)


@pytest.mark.parametrize("offset", [-TOLERANCE_S, 0, TOLERANCE_S])
def test_a_clock_may_be_five_minutes_off(offset: int) -> None:
    verify(KEY, ID, str(NOW), PUBLISHED, BODY, NOW + offset)


@pytest.mark.parametrize("offset", [-TOLERANCE_S - 1, TOLERANCE_S + 1, 10**9])
def test_an_old_delivery_cannot_be_replayed(offset: int) -> None:
    with pytest.raises(SignatureRefused):
        verify(KEY, ID, str(NOW), PUBLISHED, BODY, NOW + offset)


@corpus(
    ("webhook_id", "timestamp", "signatures", "body"),
    [
        ("msg_other", str(NOW), PUBLISHED, BODY),
        (ID, str(NOW + 1), PUBLISHED, BODY),
        (ID, str(NOW), PUBLISHED, BODY + b" "),
        (ID, str(NOW), PUBLISHED.removeprefix("v1,"), BODY),
        (ID, str(NOW), PUBLISHED.replace("v1,", "v2,"), BODY),
        (ID, str(NOW), PUBLISHED.replace("v1,", "v1,,"), BODY),
        (ID, str(NOW), PUBLISHED[:-1], BODY),
        (ID, str(NOW), "v1,", BODY),
        (ID, str(NOW), "", BODY),
        (ID, str(NOW), "v1,\u00e9", BODY),
        ("", str(NOW), PUBLISHED, BODY),
        (ID, "", PUBLISHED, BODY),
        (ID, "-1", PUBLISHED, BODY),
        (ID, f"{NOW}.0", PUBLISHED, BODY),
        (ID, "inf", PUBLISHED, BODY),
        (ID, "9" * 400, PUBLISHED, BODY),
        (ID, f" {NOW}", PUBLISHED, BODY),
        (ID, "\u0661\u0662", PUBLISHED, BODY),
    ],
)
def test_anything_else_is_refused(
    webhook_id: str, timestamp: str, signatures: str, body: bytes
) -> None:
    with pytest.raises(SignatureRefused):
        verify(KEY, webhook_id, timestamp, signatures, body, NOW)


def test_parts_cannot_be_moved_from_one_field_to_the_next() -> None:
    """`a.1` and `2.{}` sign the same bytes as `a` and `1.2.{}`, but for the time."""
    moved = sign(KEY, f"{ID}.{NOW}", NOW, BODY)
    with pytest.raises(SignatureRefused):
        verify(KEY, ID, str(NOW), moved, BODY, NOW)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_c2hvcnQ=", "not base64!", "whsec_\u00e9"])
def test_a_secret_that_is_none_signs_nothing(secret: str) -> None:
    with pytest.raises(SignatureRefused):
        signing_key(secret)


def test_a_secret_is_right_with_and_without_prefix_and_padding() -> None:
    key = b"k" * 25
    text = base64.b64encode(key).decode()
    for given in (text, text.rstrip("="), f"whsec_{text}", f" whsec_{text}\n"):
        assert signing_key(given) == key


@pytest.fixture
def served(state_dsns: Any, tmp_path: Path) -> Iterator[ServedDispatcher]:
    dispatcher = ServedDispatcher(state_dsns, tmp_path)
    dispatcher.start()
    dispatcher.run(lambda plane: plane.deploy(DAG))
    yield dispatcher
    dispatcher.stop()


def signed(served: ServedDispatcher, key: bytes = KEY, body: bytes = b"{}") -> dict[str, str]:
    (row,) = served.plane.sql("SELECT extract(epoch FROM clock_timestamp())::bigint AS now")
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(row["now"]),
        "webhook-signature": sign(key, "msg_1", row["now"], body),
    }


def test_a_right_signature_opens_the_door_without_a_token(served: ServedDispatcher) -> None:
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        headers = signed(served)
        for accepted in (True, False):
            answer = http.post("/v1/hooks/hooked/calls", content=b"{}", headers=headers)
            assert (answer.status_code, answer.json()) == (200, {"accepted": accepted})


def test_every_refusal_is_the_same(served: ServedDispatcher) -> None:
    right, wrong = signed(served), signed(served, b"w" * 24)
    late = right | {"webhook-timestamp": "1"}
    attempts = [
        ("hooked/calls", wrong),
        ("hooked/calls", late),
        ("hooked/calls", {}),
        ("hooked/calls", {"Authorization": "Bearer user"}),
        ("hooked/unset", right),
        ("hooked/hands", right),
        ("hooked/nothing", right),
        ("nothing/calls", right),
        ("%00/calls", right),
    ]
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        answers = [
            http.post(f"/v1/hooks/{path}", content=b"{}", headers=headers)
            for path, headers in attempts
        ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    assert served.plane.sql("SELECT 1 FROM partition_versions") == []
    assert served.plane.sql("SELECT 1 FROM events") == []


@pytest.mark.parametrize("announced", [True, False])
def test_a_large_body_is_refused_before_it_is_held(
    served: ServedDispatcher, announced: bool
) -> None:
    size = 1_000_001
    pieces = (b" " * 1000 for _ in range(0, size, 1000))
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        content: Any = b" " * size if announced else pieces
        answer = http.post("/v1/hooks/hooked/calls", content=content, headers=signed(served))
    assert answer.status_code == 413
    assert answer.json()["code"] == "bad_input"


def test_a_body_as_large_as_is_allowed_is_taken(served: ServedDispatcher) -> None:
    body = b'{"a": "' + b"x" * (1_000_000 - 9) + b'"}'
    assert len(body) == 1_000_000
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        headers = signed(served, body=body)
        answer = http.post("/v1/hooks/hooked/calls", content=body, headers=headers)
    assert answer.json() == {"accepted": True}


# --- What strangers can hold up, or fill


def unfinished(served: ServedDispatcher, sent: int, announced: int = 900_000) -> socket.socket:
    """A delivery that nobody has signed, of which no more than that is sent."""
    at = urlsplit(served.url)
    client = socket.create_connection((at.hostname, at.port))
    head = {**signed(served, b"w" * 24), "host": "x", "content-length": str(announced)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    first = f"POST /v1/hooks/hooked/calls HTTP/1.1\r\n{lines}\r\n".encode()
    client.sendall(first + b"{" * sent)
    return client


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "MAX_HELD_BYTES", 2_000_000)
    # It is read when routes are made, and an app that was lent before has them.
    monkeypatch.setattr(lent_apps, "_free", [])


def test_bodies_that_do_not_arrive_keep_nobody_waiting(served: ServedDispatcher) -> None:
    with ExitStack() as opened:
        for _ in range(70):
            opened.enter_context(unfinished(served, 1))
        with httpx.Client(base_url=served.url, trust_env=False, timeout=10) as http:
            answer = http.post("/v1/hooks/hooked/calls", content=b"{}", headers=signed(served))
    assert answer.json() == {"accepted": True}


def test_of_bodies_that_stand_still_the_oldest_gives_way(
    little_room: None, served: ServedDispatcher
) -> None:
    with ExitStack() as opened:
        held = [opened.enter_context(unfinished(served, 800_000)) for _ in range(3)]
        with httpx.Client(base_url=served.url, trust_env=False, timeout=10) as http:
            answer = http.post("/v1/hooks/hooked/calls", content=b"{}", headers=signed(served))
        assert answer.json() == {"accepted": True}
        held[0].settimeout(10)
        assert b" 503 " in held[0].recv(1000)


def test_the_log_does_not_repeat_a_name_that_no_source_can_have(served: ServedDispatcher) -> None:
    with capture_logs() as logged, httpx.Client(base_url=served.url, trust_env=False) as http:
        for name in ("a" * 60_000, "hooked"):
            http.post(f"/v1/hooks/{name}/b", content=b"{}", headers=signed(served))
    refused = [line["source"] for line in logged if line["event"] == "hook_refused"]
    assert refused == [None, "hooked.b"]
