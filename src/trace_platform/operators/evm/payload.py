"""A node's answers as typed structs. Fields that no column needs are skipped by the decoder.

`gc=False`: hundreds of thousands of these live at once and none is part of a cycle, so the
garbage collector need not walk them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import field


class Transaction(msgspec.Struct, gc=False):
    hash: str
    index: str = field(name="transactionIndex")
    nonce: str
    sender: str = field(name="from")
    value: str
    input: str
    gas: str
    to: str | None = None
    gas_price: str | None = field(name="gasPrice", default=None)
    kind: str = field(name="type", default="0x0")  # nodes from before EIP-2718 leave it out
    max_priority_fee: str | None = field(name="maxPriorityFeePerGas", default=None)
    max_fee: str | None = field(name="maxFeePerGas", default=None)


class Block(msgspec.Struct, gc=False):
    hash: str
    parent_hash: str = field(name="parentHash")
    number: str
    timestamp: str
    miner: str
    gas_used: str = field(name="gasUsed")
    gas_limit: str = field(name="gasLimit")
    extra_data: str = field(name="extraData")
    state_root: str = field(name="stateRoot")
    transactions_root: str = field(name="transactionsRoot")
    receipts_root: str = field(name="receiptsRoot")
    transactions: Sequence[Transaction]
    size: str | None = None
    logs_bloom: str | None = field(name="logsBloom", default=None)
    base_fee: str | None = field(name="baseFeePerGas", default=None)
    blob_gas_used: str | None = field(name="blobGasUsed", default=None)
    excess_blob_gas: str | None = field(name="excessBlobGas", default=None)
    withdrawals_root: str | None = field(name="withdrawalsRoot", default=None)
    uncles: list[str] = []


class BlockLink(msgspec.Struct, gc=False):
    """A block as its place in the chain, and nothing else of it."""

    hash: str
    parent_hash: str = field(name="parentHash")
    number: str


class Log(msgspec.Struct, gc=False):
    address: str
    topics: list[str]
    data: str
    index: str = field(name="logIndex")


class Receipt(msgspec.Struct, gc=False):
    transaction_hash: str = field(name="transactionHash")
    block_hash: str = field(name="blockHash")
    gas_used: str = field(name="gasUsed")
    logs: list[Log]
    status: str | None = None
    contract_address: str | None = field(name="contractAddress", default=None)


def created_by(receipt: Receipt) -> str | None:
    """The contract that is there since this transaction. Of a creation that failed some nodes name
    the address where it would have been."""
    if receipt.contract_address is None or has_failed(receipt):
        return None
    return receipt.contract_address


def has_failed(receipt: Receipt) -> bool:
    """Before Byzantium no receipt told."""
    return receipt.status is not None and receipt.status.strip("0") == "x"


class Action(msgspec.Struct, gc=False):
    """Of every kind of trace: a field that a kind does not have is null."""

    sender: str | None = field(name="from", default=None)
    to: str | None = None
    value: str | None = None
    gas: str | None = None
    input: str | None = None
    call_type: str | None = field(name="callType", default=None)
    init: str | None = None  # create
    address: str | None = None  # suicide, as are the next two
    refund_address: str | None = field(name="refundAddress", default=None)
    balance: str | None = None
    author: str | None = None  # reward
    reward_type: str | None = field(name="rewardType", default=None)


class Outcome(msgspec.Struct, gc=False):
    gas_used: str | None = field(name="gasUsed", default=None)
    output: str | None = None
    code: str | None = None
    address: str | None = None


class Trace(msgspec.Struct, gc=False):
    kind: str = field(name="type")
    action: Action
    block_hash: str = field(name="blockHash")
    subtraces: int
    trace_address: list[int] = field(name="traceAddress")
    result: Outcome | None = None
    error: str | None = None
    transaction_hash: str | None = field(name="transactionHash", default=None)  # null: a reward
    transaction_index: int | None = field(name="transactionPosition", default=None)
