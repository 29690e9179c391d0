"""Keccak-256, the recursive length prefix and the bloom: what a chain's headers are made with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from Crypto.Hash import keccak

BLOOM_BYTES = 256

# What stands before so many bytes.
_SHORT = tuple(bytes([0x80 + length]) for length in range(56))

Item: TypeAlias = "bytes | int | Sequence[Item]"


def keccak256(data: bytes) -> bytes:
    """As Ethereum uses it (the padding differs from NIST's SHA3-256). About 5 µs a call."""
    digest: bytes = keccak.new(digest_bits=256, data=data).digest()
    return digest


def encoded(item: Item) -> bytes:
    """Numbers are unsigned, big endian and as short as can be."""
    if isinstance(item, int):
        item = item.to_bytes((item.bit_length() + 7) // 8, "big")
    if isinstance(item, bytes):
        return item if len(item) == 1 and item[0] < 0x80 else length_of_bytes(len(item)) + item
    return joined(map(encoded, item))


def length_of_bytes(length: int) -> bytes:
    """What stands before so many bytes."""
    return _SHORT[length] if length < len(_SHORT) else _length(0x80, length)


def joined(parts: Iterable[bytes]) -> bytes:
    """The list of parts that are encoded already."""
    body = b"".join(parts)
    return _length(0xC0, len(body)) + body


def bloom_bits(word: bytes) -> int:
    """The (at most) three bits that an address or a topic sets."""
    digest = keccak256(word)
    places = [int.from_bytes(digest[i : i + 2], "big") % (8 * BLOOM_BYTES) for i in (0, 2, 4)]
    return 1 << places[0] | 1 << places[1] | 1 << places[2]


def _length(kind: int, length: int) -> bytes:
    if length <= 55:
        return bytes([kind + length])
    digits = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([kind + 55 + len(digits)]) + digits
