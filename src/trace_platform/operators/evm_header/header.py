"""A block's header as a node tells it, and the hash that it must have."""

from __future__ import annotations

import msgspec
from msgspec import field

from trace_platform.domain.evm_encoding import Item, encoded, keccak256
from trace_platform.domain.evm_hex import data, quantity
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


class Header(msgspec.Struct, gc=False):
    """`transactions` are hashes, or whole where they were asked for."""

    hash: str
    parent_hash: str = field(name="parentHash")
    uncles_hash: str = field(name="sha3Uncles")
    miner: str
    state_root: str = field(name="stateRoot")
    transactions_root: str = field(name="transactionsRoot")
    receipts_root: str = field(name="receiptsRoot")
    logs_bloom: str = field(name="logsBloom")
    difficulty: str
    number: str
    gas_limit: str = field(name="gasLimit")
    gas_used: str = field(name="gasUsed")
    timestamp: str
    extra_data: str = field(name="extraData")
    mix_hash: str = field(name="mixHash")
    nonce: str
    transactions: list[SignedTransaction | str]
    base_fee: str | None = field(name="baseFeePerGas", default=None)
    withdrawals_root: str | None = field(name="withdrawalsRoot", default=None)
    blob_gas_used: str | None = field(name="blobGasUsed", default=None)
    excess_blob_gas: str | None = field(name="excessBlobGas", default=None)
    parent_beacon_root: str | None = field(name="parentBeaconBlockRoot", default=None)
    requests_hash: str | None = field(name="requestsHash", default=None)


def header_hash(header: Header) -> bytes:
    """Raise ValueError for text that is not hex."""
    told = [(name, getattr(header, name), is_number) for name, is_number in (*_ALWAYS, *_SINCE)]
    fields: list[Item] = [
        quantity(text, name) if is_number else data(text, name)
        for name, text, is_number in told
        if text is not None
    ]
    return keccak256(encoded(fields))
