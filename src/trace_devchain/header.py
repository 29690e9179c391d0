"""A block header: its fields in hashing order, its encoding and its hash."""

from __future__ import annotations

import msgspec

from trace_platform.domain.evm_encoding import encoded, keccak256

EMPTY_TRIE = keccak256(encoded(b""))
EMPTY_OMMERS = keccak256(encoded(()))
# Prague: sha256 of no execution requests.
EMPTY_REQUESTS = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


class Header(msgspec.Struct, frozen=True, gc=False):
    """Declared in the order in which the fields are hashed.

    The optional ones came with later forks: a header has all of them up to its fork, none after.
    """

    parent_hash: bytes
    ommers_hash: bytes
    beneficiary: bytes
    state_root: bytes
    transactions_root: bytes
    receipts_root: bytes
    logs_bloom: bytes
    difficulty: int
    number: int
    gas_limit: int
    gas_used: int
    timestamp: int
    extra_data: bytes
    mix_hash: bytes
    nonce: bytes
    base_fee: int | None = None
    withdrawals_root: bytes | None = None
    blob_gas_used: int | None = None
    excess_blob_gas: int | None = None
    parent_beacon_root: bytes | None = None
    requests_hash: bytes | None = None

    def encode(self) -> bytes:
        return encoded([field for field in msgspec.structs.astuple(self) if field is not None])

    def hash(self) -> bytes:
        return keccak256(self.encode())
