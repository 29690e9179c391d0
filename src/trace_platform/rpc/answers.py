"""Looking at answers without reading them: large ones are only searched, small ones are parsed."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import msgspec

from trace_platform.wire.rpc_codes import LIMITS, METHOD_MISSING

# Below this an answer is parsed.
SMALL_BYTES = 64 << 10
_MISSING_METHOD_WORDS = re.compile(
    r"method.*(not (found|supported|available)|does not exist)|unsupported method", re.I
)
_MISSING_BLOCK_WORDS = re.compile(
    r"(header|block|transaction|receipts?) (was )?not found|unknown block|missing trie node"
    r"|could not find block|after last accepted block",
    re.I,
)


class Fault(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""

    @property
    def is_limit(self) -> bool:
        return self.code in LIMITS

    @property
    def is_missing_method(self) -> bool:
        return self.code == METHOD_MISSING or bool(_MISSING_METHOD_WORDS.search(self.message))

    @property
    def is_missing_block(self) -> bool:
        return bool(_MISSING_BLOCK_WORDS.search(self.message))


class Item(msgspec.Struct, gc=False):
    """The answer to one call; `result` is left as it came."""

    id: msgspec.Raw = msgspec.Raw(b"")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: Fault | None = None

    @property
    def is_missing(self) -> bool:
        """Nothing is there: another provider may have it, or the method."""
        if self.error is not None:
            return self.error.is_missing_block or self.error.is_missing_method
        return bytes(self.result) == b"null"


_items = msgspec.json.Decoder(list[Item])
_item = msgspec.json.Decoder(Item)
_raws = msgspec.json.Decoder(list[msgspec.Raw])


class NotJsonRpc(Exception):
    """A web page, half an answer, or something else."""


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
    """Raise NotJsonRpc. A provider may answer a batch with one error."""
    try:
        found = _items.decode(body) if is_batch(body) else [_item.decode(body)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NotJsonRpc("something that is not JSON-RPC") from None
    for item in found:
        if item.error is None and not bytes(item.result):
            raise NotJsonRpc("neither a result nor an error")
    return found


def is_batch(body: bytes) -> bool:
    return body[:64].lstrip()[:1] == b"["


def looks_whole(body: bytes) -> bool:
    """Of a large answer: it begins and ends as JSON-RPC does."""
    first, last = body[:64].lstrip()[:1], body[-64:].rstrip()[-1:]
    return (first, last) in ((b"{", b"}"), (b"[", b"]"))


def may_hold(body: bytes, *names: bytes) -> bool:
    """Whether one of `name:` may be in it, in the spacing that the answer has."""
    space = b" " if b'": ' in body[:64] else b""
    return any(name.replace(b":", b":" + space) in body for name in names)


def merged(bodies: Sequence[bytes]) -> bytes:
    """The answers of the parts of a batch as one, in the order of the parts."""
    inner = [body.strip() for body in bodies]
    parts = [each[1:-1].strip() if each[:1] == b"[" else each for each in inner]
    return b"[" + b",".join(part for part in parts if part) + b"]"


def replaced(body: bytes, by_index: dict[int, bytes]) -> bytes:
    """The batch with other answers at these places."""
    items = _raws.decode(body)
    return b"[" + b",".join(by_index.get(i, bytes(raw)) for i, raw in enumerate(items)) + b"]"


def raw_items(body: bytes) -> list[bytes]:
    return [bytes(raw) for raw in _raws.decode(body)] if is_batch(body) else [body]
