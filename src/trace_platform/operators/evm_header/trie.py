"""The root of a Merkle-Patricia trie whose keys are the positions of a list.

No key begins with another one, so that a branch never holds a value of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from trace_platform.domain.evm_encoding import encoded, joined, keccak256

_Leaf = tuple[bytes, bytes]  # what is left of the key, a nibble per byte; the value
EMPTY_ROOT = keccak256(encoded(b""))


def list_root(values: Sequence[bytes]) -> bytes:
    """Of transactions or receipts, in their order in the block."""
    if not values:
        return EMPTY_ROOT
    leaves = sorted((_nibbles(encoded(i)), value) for i, value in enumerate(values))
    return keccak256(_node(leaves))


def _node(leaves: Sequence[_Leaf]) -> bytes:
    first, last = leaves[0][0], leaves[-1][0]
    if len(leaves) == 1:
        return joined([encoded(_path(first, is_leaf=True)), encoded(leaves[0][1])])
    shared = _shared(first, last)
    if shared:
        rest = [(key[shared:], value) for key, value in leaves]
        return joined([encoded(_path(first[:shared], is_leaf=False)), _reference(_branch(rest))])
    return _branch(leaves)


def _branch(leaves: Sequence[_Leaf]) -> bytes:
    slots = [encoded(b"")] * 17
    for nibble, below in groupby(leaves, key=lambda leaf: leaf[0][0]):
        slots[nibble] = _reference(_node([(key[1:], value) for key, value in below]))
    return joined(slots)


def _reference(node: bytes) -> bytes:
    """A node shorter than a hash stands in its parent itself."""
    return node if len(node) < 32 else encoded(keccak256(node))


def _shared(first: bytes, last: bytes) -> int:
    """Keys are sorted: what the outermost two begin with, all do."""
    return next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )


def _path(nibbles: bytes, *, is_leaf: bool) -> bytes:
    """Two nibbles to a byte, after one that tells the kind and whether their number is odd."""
    kind = 2 * is_leaf + len(nibbles) % 2
    padded = bytes([kind]) + (b"" if len(nibbles) % 2 else b"\0") + nibbles
    pairs = zip(padded[::2], padded[1::2], strict=True)
    return bytes(16 * high + low for high, low in pairs)


def _nibbles(key: bytes) -> bytes:
    return bytes(nibble for byte in key for nibble in divmod(byte, 16))
