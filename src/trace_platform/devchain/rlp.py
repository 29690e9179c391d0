"""Recursive length prefix, the encoding under block headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Item: TypeAlias = "bytes | int | Sequence[Item]"


def encode(item: Item) -> bytes:
    """The canonical encoding. Integers are unsigned and carry no leading zero."""
    if isinstance(item, bytes):
        return _string(item)
    if isinstance(item, int):
        return _string(item.to_bytes((item.bit_length() + 7) // 8, "big"))
    body = b"".join(map(encode, item))
    return _prefix(0xC0, len(body)) + body


def _string(data: bytes) -> bytes:
    if len(data) == 1 and data[0] < 0x80:
        return data
    return _prefix(0x80, len(data)) + data


def _prefix(base: int, length: int) -> bytes:
    if length < 56:
        return bytes((base + length,))
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes((base + 55 + len(size),)) + size
