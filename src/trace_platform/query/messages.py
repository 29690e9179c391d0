"""What a query child and its parent say to each other: length-prefixed JSON on two pipes.

JSON, not pickle: a child that runs a stranger's SQL is never trusted with the parent's objects.
"""

from __future__ import annotations

import msgspec

HEADER_BYTES = 4


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one query may use."""

    timeout_s: float = 60.0
    memory_mb: int = 1024
    threads: int = 2
    result_bytes: int = 64 << 20
    # How long after its time-out a query may take to stop by itself before it is killed.
    grace_s: float = 1.0


class Column(msgspec.Struct, frozen=True):
    name: str
    type: str


class Check(msgspec.Struct, frozen=True, tag="check"):
    """Is this one SELECT over these datasets? Answered by Checked or Refused."""

    sql: str
    published: list[str]


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Run the statement of the last Check over these files. Answered by Answer or Refused."""

    tables: dict[str, list[str]]
    limit: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The child is warm and confined."""


class Checked(msgspec.Struct, frozen=True, tag="checked"):
    datasets: list[str]


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """`rows` stays encoded: the parent hands the bytes on without looking into them."""

    columns: list[Column]
    rows: msgspec.Raw
    row_count: int
    truncated: bool


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    code: str
    message: str
    hint: str | None = None
    facts: dict[str, object] = {}
    # The child ran into one of its limits: it is not to be used again.
    retire: bool = False


Request = Check | Run
Reply = Ready | Checked | Answer | Refused

_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_replies: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


def decode_request(body: bytes) -> Request:
    return _requests.decode(body)


def decode_reply(body: bytes) -> Reply:
    return _replies.decode(body)


def frame(message: Request | Reply) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(HEADER_BYTES, "big") + body
