"""A block header: its fields in hashing order, its encoding and its hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trace_platform.devchain import rlp
from trace_platform.devchain.keccak import keccak256

EMPTY_TRIE = keccak256(rlp.encode(b""))
EMPTY_OMMERS = keccak256(rlp.encode(()))
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
        return rlp.encode([field for field in msgspec.structs.astuple(self) if field is not None])

    def hash(self) -> bytes:
        return keccak256(self.encode())


_BYTES_KEYS = {
    "parent_hash": "parentHash",
    "ommers_hash": "sha3Uncles",
    "beneficiary": "miner",
    "state_root": "stateRoot",
    "transactions_root": "transactionsRoot",
    "receipts_root": "receiptsRoot",
    "logs_bloom": "logsBloom",
    "extra_data": "extraData",
    "mix_hash": "mixHash",
    "nonce": "nonce",
    "withdrawals_root": "withdrawalsRoot",
    "parent_beacon_root": "parentBeaconBlockRoot",
    "requests_hash": "requestsHash",
}
_INT_KEYS = {
    "difficulty": "difficulty",
    "number": "number",
    "gas_limit": "gasLimit",
    "gas_used": "gasUsed",
    "timestamp": "timestamp",
    "base_fee": "baseFeePerGas",
    "blob_gas_used": "blobGasUsed",
    "excess_blob_gas": "excessBlobGas",
}


def from_rpc(block: Mapping[str, Any]) -> Header:
    """The header inside a node's JSON answer, so that its hash can be recomputed."""
    fields: dict[str, Any] = {
        name: bytes.fromhex(block[key][2:]) for name, key in _BYTES_KEYS.items() if block.get(key)
    }
    fields |= {name: int(block[key], 16) for name, key in _INT_KEYS.items() if block.get(key)}
    return Header(**fields)
