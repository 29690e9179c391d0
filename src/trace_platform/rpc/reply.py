"""A provider's answer on its way to the client: looked at as little as possible."""

from __future__ import annotations

from dataclasses import dataclass

from trace_platform.rpc.answers import (
    SMALL_BYTES,
    Fault,
    Item,
    NotJsonRpc,
    is_batch,
    looks_whole,
    may_hold,
    parsed,
    raw_items,
    replaced,
    unpacked,
)
from trace_platform.rpc.calls import Question
from trace_platform.rpc.faults import ProviderFailed, RpcRefusal
from trace_platform.rpc.provider import Provider
from trace_platform.rpc.upstream import Answer
from trace_platform.wire.rpc_codes import TOO_LARGE

# Up to here an answer is held until it is whole, so that one that breaks off is asked for again
# elsewhere. What is larger streams.
HELD_BYTES = 8 << 20
MAX_ANSWER_BYTES = 256 << 20
# What is put together from several answers is held in memory.
MAX_MERGED_BYTES = 96 << 20
_ENDS_BYTES = 1024


@dataclass(slots=True)
class Reply:
    """The client's answer: what is there, and for a large one where the rest comes from."""

    body: bytes
    # Only of what streams: a whole answer is unpacked.
    encoding: str | None = None
    rest: Answer | None = None
    provider: Provider | None = None

    def close(self) -> None:
        if self.rest is not None:
            self.rest.close()


def quantity(item: Item) -> int | None:
    try:
        text = bytes(item.result).decode().strip('"')
        return int(text, 16) if text.startswith("0x") else None
    except ValueError:
        return None


def unpack(reply: Reply) -> None:
    """Once, here: it has to be looked at. Raise ProviderFailed when it cannot be."""
    try:
        reply.body = unpacked(reply.body, reply.encoding, MAX_ANSWER_BYTES)
    except NotJsonRpc as error:
        raise ProviderFailed(f"answered with {error}", code="not_json") from None
    reply.encoding = None


def encoding_of(answer: Answer) -> str | None:
    given = answer.header(b"content-encoding")
    if given in (None, "", "identity"):
        return None
    if given != "gzip":
        raise ProviderFailed("answers in an encoding that it was not asked for", code="not_json")
    return given


def too_large() -> RpcRefusal:
    return RpcRefusal(TOO_LARGE, "the answer is too large: ask for less at once")


def by_call(question: Question, body: bytes) -> list[bytes]:
    """The answers in the order of the calls."""
    raws = dict(zip((bytes(item.id) for item in parsed(body)), raw_items(body), strict=True))
    return [raws[bytes(call.id)] for call in question.calls]


def items_of(reply: Reply, provider: Provider) -> list[Item]:
    """What has to be looked at: a small answer, a large one only if it holds an error.

    One who knows no key can give none away: then the ends of a large answer tell enough.
    """
    body = reply.body
    if len(body) <= SMALL_BYTES:
        return parsed(body)
    if not looks_whole(body):
        raise NotJsonRpc("something that is not JSON")
    searched = body if provider.config.secrets else body[:_ENDS_BYTES] + body[-_ENDS_BYTES:]
    return parsed(body) if may_hold(searched, b'"error":{') else []


def scrub_errors(
    reply: Reply, provider: Provider, items: list[Item], errors: dict[int, Fault]
) -> None:
    """An error may repeat the URL that was asked: it is said again in our words."""
    body = reply.body
    if not any(secret in body for secret in provider.config.secrets):
        return
    said = {
        i: RpcRefusal(error.code, provider.config.scrub(error.message)).body(
            bytes(items[i].id) or b"null"
        )
        for i, error in errors.items()
    }
    reply.body = replaced(body, said) if is_batch(body) else said[0]


async def held(answer: Answer, most: int) -> tuple[bytes, bool]:
    """The body up to a limit, and whether that is all of it."""
    chunks: list[bytes] = []
    size = 0
    while size < most:
        chunk = await answer.chunk()
        if not chunk:
            return b"".join(chunks), True
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks), False
