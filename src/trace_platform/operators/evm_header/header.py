"""A block's header as a node tells it, and the hash that it must have."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from trace_platform.domain.evm_encoding import Item, encoded, keccak256
from trace_platform.domain.evm_hex import data, quantity
from trace_platform.operators.evm.payload import Block
from trace_platform.operators.evm_header.envelope import SignedTransaction

# In the order in which they are hashed; a number where True.
_ALWAYS = (
    *(("parent_hash", False), ("uncles_hash", False), ("miner", False), ("state_root", False)),
    *(("transactions_root", False), ("receipts_root", False), ("logs_bloom", False)),
    *(("difficulty", True), ("number", True), ("gas_limit", True), ("gas_used", True)),
    *(("timestamp", True), ("extra_data", False), ("mix_hash", False), ("nonce", False)),
)
# Each came with a fork, after those before it.
_SINCE = (
    ("base_fee", True),  # London
    ("withdrawals_root", False),  # Shanghai
    ("blob_gas_used", True),  # Cancun
    ("excess_blob_gas", True),
    ("parent_beacon_root", False),
    ("requests_hash", False),  # Prague
)


class ProvableBlock(Block, gc=False, kw_only=True):
    """A block with what its hash is made of, besides the columns."""

    uncles_hash: str = field(name="sha3Uncles")
    difficulty: str
    mix_hash: str = field(name="mixHash")
    nonce: str
    transactions: Sequence[SignedTransaction]
    parent_beacon_root: str | None = field(name="parentBeaconBlockRoot", default=None)
    requests_hash: str | None = field(name="requestsHash", default=None)


def header_hash(header: ProvableBlock) -> bytes:
    """Raise ValueError for text that is not hex."""
    always = [_item(header, name, is_number) for name, is_number in _ALWAYS]
    since = [each for each in _SINCE if getattr(header, each[0]) is not None]
    later = [_item(header, name, is_number) for name, is_number in since]
    return keccak256(encoded([*always, *later]))


def _item(header: ProvableBlock, name: str, is_number: bool) -> Item:
    said = getattr(header, name)
    if said is None:
        raise ValueError(f"{name} is missing in a header")
    return quantity(said, name) if is_number else data(said, name)
