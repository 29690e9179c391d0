"""A provider's answer on its way to the client: it passes through as it came."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from trace_platform.domain import evm_hex
from trace_platform.rpc.answers import (
    Fault,
    Item,
    NotJsonRpc,
    is_batch,
    places_of,
    replaced,
    unpacked,
)
from trace_platform.rpc.calls import Question
from trace_platform.rpc.faults import ProviderFailed, RpcRefusal
from trace_platform.rpc.provider import Provider
from trace_platform.rpc.upstream import Answer
from trace_platform.wire.rpc_codes import TOO_LARGE

# Up to here the answer to one call is held until it is whole, so that one that breaks off is asked
# for again elsewhere. What is larger streams.
HELD_BYTES = 8 << 20
MAX_ANSWER_BYTES = 256 << 20
# A batch is held in memory: whether it has every answer is only known when it is whole.
MAX_MERGED_BYTES = 96 << 20


@dataclass(slots=True)
class Reply:
    """The client's answer: what is there, and for a large one where the rest comes from."""

    body: bytes
    # Only of what streams: a whole answer is unpacked.
    encoding: str | None = None
    rest: Answer | None = None
    provider: Provider | None = None
    # To each call of the question, in their order, and where it is in the body; None for a call
    # that has no answer. Empty for what was not read.
    items: list[Item | None] = field(default_factory=list)
    places: list[int | None] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return None not in self.places

    def close(self) -> None:
        if self.rest is not None:
            self.rest.close()


def quantity(item: Item) -> int | None:
    try:
        return evm_hex.quantity(msgspec.json.decode(item.result), "number")
    except (ValueError, msgspec.MsgspecError):
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


def assign_answers(question: Question, reply: Reply, items: list[Item]) -> None:
    """`items`: in the order of the body. Raise NotTheAnswers."""
    reply.places = places_of(question, items, is_list=is_batch(reply.body))
    reply.items = [None if place is None else items[place] for place in reply.places]


def scrub_errors(
    reply: Reply, provider: Provider, items: list[Item], errors: dict[int, Fault]
) -> None:
    """An error may repeat the URL that was asked: it is said again in our words."""
    body = reply.body
    if not any(secret in body for secret in provider.config.secrets):
        return
    said = {
        i: RpcRefusal(error.code, provider.config.scrub(error.message)).body(bytes(items[i].id))
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
