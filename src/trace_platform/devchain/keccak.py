"""Keccak-256, as Ethereum uses it (the padding differs from NIST's SHA3-256)."""

from __future__ import annotations

from Crypto.Hash import keccak


def keccak256(data: bytes) -> bytes:
    """About 5 µs a call: hash headers and cached names with it, never every transaction."""
    digest: bytes = keccak.new(digest_bits=256, data=data).digest()
    return digest
