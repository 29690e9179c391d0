"""The 2048-bit log bloom filter of the yellow paper, as an integer."""

from __future__ import annotations

from trace_platform.devchain.keccak import keccak256

BYTES = 256


def bits(data: bytes) -> int:
    """The (at most) three bits that one address or topic sets."""
    digest = keccak256(data)
    filter_ = 0
    for at in (0, 2, 4):
        filter_ |= 1 << (int.from_bytes(digest[at : at + 2], "big") & 0x7FF)
    return filter_
