"""What providers answer: which call each answer is to, and what kind of answer it is."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from trace_platform.rpc.calls import Question, id_value
from trace_platform.wire.rpc_codes import (
    LIMITS,
    METHOD_MISSING,
    NOT_THERE_WORDS,
    PRUNED,
    REVERTED,
    TOO_LARGES,
)

# Below this an answer is always read.
SMALL_BYTES = 64 << 10
_MISSING_METHOD_WORDS = re.compile(
    r"method.*(not (found|supported|available)|does not exist)|unsupported method", re.I
)
# A node that threw this away, or never had it; one that kept everything has it.
_PRUNED_WORDS = re.compile(
    r"resource not found|missing trie node|\barchiv(e|al)\b|\bpruned\b|\bpruning\b"
    r"|\b(history|historical|state|old data)\b.*\b(unavailable|not available|not found)"
    r"|distance to target block exceeds",
    re.I,
)

_NULL = memoryview(b"null")


class Fault(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""

    @property
    def is_limit(self) -> bool:
        return self.code in LIMITS

    @property
    def is_too_large(self) -> bool:
        return self.code in TOO_LARGES or "too large" in self.message.lower()

    @property
    def is_missing_method(self) -> bool:
        return self.code == METHOD_MISSING or self._says(_MISSING_METHOD_WORDS)

    @property
    def is_pruned(self) -> bool:
        return self.code == PRUNED or self._says(_PRUNED_WORDS)

    @property
    def is_missing(self) -> bool:
        """Another provider may answer."""
        return self.is_missing_method or self.is_pruned or self._says(NOT_THERE_WORDS)

    def _says(self, words: re.Pattern[str]) -> bool:
        # The text of a revert is a contract's own.
        return self.code != REVERTED and words.search(self.message) is not None


class Item(msgspec.Struct, gc=False):
    """The answer to one call; `result` is left as it came."""

    id: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: Fault | None = None

    @property
    def is_null(self) -> bool:
        return self.error is None and memoryview(self.result) == _NULL


_items = msgspec.json.Decoder(list[Item])
_item = msgspec.json.Decoder(Item)
_raws = msgspec.json.Decoder(list[msgspec.Raw])


class NotJsonRpc(Exception):
    """A web page, half an answer, or something else."""


class NotTheAnswers(Exception):
    """JSON-RPC, but not what was asked for."""


def unpacked(body: bytes, encoding: str | None, most: int) -> bytes:
    """Raise NotJsonRpc for what is damaged or would be larger than `most`."""
    if encoding is None:
        return body
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(body, most + 1)
    except zlib.error:
        raise NotJsonRpc("damaged gzip data") from None
    if len(plain) > most or not unpacker.eof:
        raise NotJsonRpc("gzip data that is too large or cut")
    return plain


def parsed(body: bytes) -> list[Item]:
    """In their order. Raise NotJsonRpc. Takes 0.4 ms for a megabyte: results are skipped."""
    try:
        found = _items.decode(body) if is_batch(body) else [_item.decode(body)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NotJsonRpc("something that is not JSON-RPC") from None
    for item in found:
        if item.error is None and not memoryview(item.result).nbytes:
            raise NotJsonRpc("neither a result nor an error")
    return found


def places_of(question: Question, items: Sequence[Item], *, is_list: bool) -> list[int | None]:
    """Where the answer to each call is; None for a call that has none. Raise NotTheAnswers.

    Among answers that nobody asked for, or two to one call, none can be trusted to be to the call
    that it names.
    """
    if question.batch and not is_list:
        said = items[0].error
        what = "answer" if said is None else f"error: {said.message}"
        raise NotTheAnswers(f"answered all calls of a batch with one {what}")
    if not question.batch:
        if is_list:
            raise NotTheAnswers("answered one call with a batch")
        _check_one(question, items[0])
        return [0]
    places = {_answered_id(item): place for place, item in enumerate(items)}
    if len(places) < len(items):
        raise NotTheAnswers("answered a call of a batch twice")
    wanted = [id_value(call.id) for call in question.calls]
    if not places.keys() <= set(wanted):
        raise NotTheAnswers("answered calls that are not in the batch")
    return [places.get(each) for each in wanted]


def _check_one(question: Question, item: Item) -> None:
    """An error may come without the id: a node that could not read the call does not know it."""
    given = _answered_id(item)
    is_unnamed = item.error is not None and given is None
    if not is_unnamed and given != id_value(question.calls[0].id):
        raise NotTheAnswers("answered another call than the one it was asked")


def _answered_id(item: Item) -> Any:
    try:
        found = id_value(item.id)
        hash(found)
    except TypeError:
        raise NotTheAnswers("answered with an id that is none") from None
    return found


def is_batch(body: bytes) -> bool:
    return body[:64].lstrip()[:1] == b"["


def looks_whole(body: bytes) -> bool:
    """It begins and ends as JSON-RPC does."""
    first, last = body[:64].lstrip()[:1], body[-64:].rstrip()[-1:]
    return (first, last) in ((b"{", b"}"), (b"[", b"]"))


def joined(answers: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(answers) + b"]"


def merged(bodies: Sequence[bytes]) -> bytes:
    """The answers of the parts of a batch as one, in the order of the parts."""
    inner = [body.strip() for body in bodies]
    parts = [each[1:-1].strip() if each[:1] == b"[" else each for each in inner]
    return joined([part for part in parts if part])


def replaced(body: bytes, by_index: dict[int, bytes]) -> bytes:
    """The batch with other answers at these places."""
    return joined([by_index.get(i, raw) for i, raw in enumerate(raw_items(body))])


def raw_items(body: bytes) -> list[bytes]:
    return [bytes(raw) for raw in _raws.decode(body)] if is_batch(body) else [body]
