"""Blocks in the shape in which the nodes of other chains send them.

The names and forms of the fields are those of the chains' public documentation (op-geth, Nitro,
ZKsync, bor, geth after Cancun and Prague); the values are made up. Each function gives a chain of
two blocks: an empty one, and one with the transactions that only this chain has.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tests.support.tiny_chain import TinyChain, address, digest
from trace_platform.domain.evm_encoding import keccak256
from trace_platform.operators.evm_header.envelope import SignedTransaction, envelope
from trace_platform.operators.evm_header.header import ProvableBlock, header_hash
from trace_platform.operators.evm_header.receipts import ProvableReceipt, receipts_root
from trace_platform.operators.evm_header.trie import EMPTY_ROOT, list_root

Json = dict[str, Any]
ZERO_HASH, ZERO_ADDRESS = "0x" + "00" * 32, "0x" + "00" * 20
NO_UNCLES = "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"
_UNSIGNED = {"v": "0x0", "r": "0x0", "s": "0x0"}
_SIGNED = {"v": "0x1", "yParity": "0x1", "r": digest("r"), "s": digest("s"), "accessList": []}


def optimism() -> TinyChain:
    """Deposits: the node's own first transaction, and one without a price and a receipt that tells
    nothing of deposits, as before Regolith. Its nonce is made up to be above int64."""
    attributes = {
        **_deposit("attributes"),
        "nonce": "0x4c4b40",
        "gasPrice": "0x0",
        "mint": "0x0",
        "depositReceiptVersion": "0x1",
    }
    before_regolith = {
        **_deposit("before regolith"),
        "nonce": "0xfffffffffffffffd",
        "mint": None,
        "isSystemTx": True,
    }
    fees = {
        "l1Fee": "0x1d8f2b2c",
        "l1GasPrice": "0x3b9aca07",
        "l1GasUsed": "0x640",
        "l1BaseFeeScalar": "0x558",
        "l1BlobBaseFee": "0x1",
        "l1BlobBaseFeeScalar": "0xc5fc5",
    }
    receipts = [
        {"depositNonce": "0x4c4b40", "depositReceiptVersion": "0x1"},
        {},
        fees,
    ]
    return _chain([attributes, before_regolith, _with_fee_caps()], receipts)


def arbitrum() -> TinyChain:
    """The types from 0x64 on; the header has fields of the parent chain."""
    own: list[Json] = [
        {"type": "0x6a", "from": "0x" + "00" * 17 + "0a4b05", "gas": "0x0", "gasPrice": "0x0"},
        {"type": "0x64", "requestId": digest("request", 0), "gas": "0x0", "gasPrice": "0x0"},
        {"type": "0x65", "gas": "0x5f5e100", "gasPrice": "0x989680"},
        {"type": "0x66", "requestId": digest("request", 1), "gas": "0x5f5e100"},
        {
            "type": "0x68",
            "ticketId": digest("ticket"),
            "refundTo": address(9),
            "maxRefund": "0x1d1a94a2000",
            "submissionFeeRefund": "0x0",
        },
        {
            "type": "0x69",
            "requestId": digest("request", 2),
            "l1BaseFee": "0x2540be400",
            "depositValue": "0xde0b6b3a7640000",
            "retryTo": None,
            "retryData": "0x",
            "beneficiary": address(9),
            "maxSubmissionFee": "0x1d1a94a2000",
        },
    ]
    transactions = [*({**each, **_UNSIGNED} for each in own), _with_fee_caps()]
    told = {"gasUsedForL1": "0x1e240", "l1BlockNumber": "0x12c4b0e", "timeboosted": False}
    header = {
        "l1BlockNumber": "0x12c4b0e",
        "sendCount": "0x2710",
        "sendRoot": digest("sends"),
        "gasLimit": "0x4000000000000",
    }
    return _chain(transactions, [told for _ in transactions], header)


def zksync() -> TinyChain:
    """Roots are zeros, the hash is not that of the header, and a transaction of the parent chain
    has no signature at all."""
    batch = {"l1BatchNumber": "0x7a120", "l1BatchTxIndex": "0x0"}
    transactions: list[Json] = [
        {"type": "0xff", **batch, "gasPrice": "0x0", "maxFeePerGas": "0x0"},
        {"type": "0x71", **_SIGNED, "l1BatchNumber": None, "l1BatchTxIndex": None},
    ]
    chain = _chain(
        transactions,
        [
            {"l1BatchNumber": "0x7a120", "l1BatchTxIndex": "0x0", "l2ToL1Logs": []},
            {"l1BatchNumber": None, "l1BatchTxIndex": None, "l2ToL1Logs": []},
        ],
        is_hashed=False,
    )
    for number in range(2):
        chain.block(number).update(
            {
                "transactionsRoot": ZERO_HASH,
                "receiptsRoot": ZERO_HASH,
                "stateRoot": ZERO_HASH,
                "sealFields": [],
                "size": "0x0",
                "l1BatchNumber": None,
                "l1BatchTimestamp": None,
            }
        )
    for receipt in chain.receipts_of(1):
        receipt["cumulativeGasUsed"] = "0x0"
        # Counted by transaction: the hardest of the ways in which such chains count.
        receipt["logs"] = [
            {**receipt["logs"][0], "logIndex": hex(i), "transactionLogIndex": hex(i)}
            | {"logType": None, "l1BatchNumber": None}
            for i in range(2)
        ]
    return chain


def polygon() -> TinyChain:
    """The last transaction brings what happened on the parent chain: from nobody to nobody, and in
    none of the roots."""
    state_sync = {
        **_UNSIGNED,
        "type": "0x0",
        "from": ZERO_ADDRESS,
        "to": ZERO_ADDRESS,
        "gas": "0x0",
        "gasPrice": "0x0",
        "nonce": "0x0",
        "value": "0x0",
        "input": "0x",
    }
    receipts: list[Json] = [{}, {"from": ZERO_ADDRESS, "to": ZERO_ADDRESS, "gasUsed": "0x0"}]
    return _chain([_with_fee_caps(), state_sync], receipts)


def ethereum() -> TinyChain:
    """Blobs, and accounts that are given code."""
    blobs = {
        **_with_fee_caps(),
        "type": "0x3",
        "maxFeePerBlobGas": "0x3b9aca00",
        "blobVersionedHashes": ["0x01" + digest("blob", i)[4:] for i in range(2)],
    }
    code = {
        **_with_fee_caps(),
        "type": "0x4",
        "authorizationList": [
            {
                "chainId": "0x7a69",
                "address": address(77),
                "nonce": "0x0",
                "yParity": "0x0",
                "r": digest("r", 1),
                "s": digest("s", 1),
            }
        ],
    }
    receipts: list[Json] = [{"blobGasUsed": "0x40000", "blobGasPrice": "0x1"}, {}]
    header = {"blobGasUsed": "0x40000", "excessBlobGas": "0x20000"}
    return _chain([blobs, code], receipts, header)


def _deposit(name: str) -> Json:
    return {
        **_UNSIGNED,
        "type": "0x7e",
        "sourceHash": digest("source", name),
        "from": "0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001",
        "to": "0x4200000000000000000000000000000000000015",
        "value": "0x0",
        "gas": "0xf4240",
        "isSystemTx": False,
    }


def _with_fee_caps() -> Json:
    caps = {"maxFeePerGas": "0x3b9aca0e", "maxPriorityFeePerGas": "0x5f5e100"}
    return {**_SIGNED, **caps, "type": "0x2", "chainId": "0x7a69", "gasPrice": "0x3b9aca07"}


def _chain(
    transactions: list[Json],
    receipts: list[Json],
    header: Json | None = None,
    *,
    is_hashed: bool = True,
) -> TinyChain:
    chain = TinyChain(n_blocks=2, n_transactions=len(transactions))
    chain.traces = [[], []]
    for number in range(2):
        chain.block(number).update(_header())
    block = chain.block(1)
    for plain, own, receipt, told in zip(
        block["transactions"], transactions, chain.receipts_of(1), receipts, strict=True
    ):
        # What the ordinary ones have is not there unless these have it, too.
        for name in ("maxFeePerGas", "maxPriorityFeePerGas", "gasPrice", "type"):
            del plain[name]
        plain.update(own)
        receipt.update({"type": own["type"], "cumulativeGasUsed": "0x5208", **told})
    block.update(header or {})
    if is_hashed:
        _hash(chain)
    return chain


def _header() -> Json:
    return {
        "sha3Uncles": NO_UNCLES,
        "difficulty": "0x0",
        "mixHash": digest("mix"),
        "nonce": "0x0000000000000000",
        "transactionsRoot": "0x" + EMPTY_ROOT.hex(),
        "receiptsRoot": "0x" + EMPTY_ROOT.hex(),
        "withdrawalsRoot": "0x" + EMPTY_ROOT.hex(),
        "blobGasUsed": "0x0",
        "excessBlobGas": "0x0",
        "parentBeaconBlockRoot": digest("beacon"),
        "requestsHash": digest("requests"),
    }


def _hash(chain: TinyChain) -> None:
    """By Ethereum's rules, which all of these but one follow for their headers."""
    parent = chain.block(0)
    parent["hash"] = _hash_of(parent)
    block = chain.block(1)
    block["parentHash"] = parent["hash"]
    block["hash"] = _hash_of(block)
    for receipt in chain.receipts_of(1):
        receipt["blockHash"] = block["hash"]


def _hash_of(block: Json) -> str:
    return "0x" + header_hash(msgspec.convert(block, ProvableBlock)).hex()


def with_roots(chain: TinyChain) -> TinyChain:
    """Of a chain whose transactions are all Ethereum's."""
    for number in (0, 1):
        block = chain.block(number)
        signed = msgspec.convert(block["transactions"], list[SignedTransaction])
        for transaction, receipt, each in zip(
            block["transactions"], chain.receipts_of(number), signed, strict=True
        ):
            own = "0x" + keccak256(envelope(each)).hex()
            transaction["hash"] = receipt["transactionHash"] = own
            receipt["from"] = transaction["from"]
            if each.max_fee is not None and each.max_priority_fee is not None:
                tip = int(block["baseFeePerGas"], 16) + int(each.max_priority_fee, 16)
                transaction["gasPrice"] = hex(min(int(each.max_fee, 16), tip))
            for log in receipt["logs"]:
                log["transactionHash"] = own
        receipts = msgspec.convert(chain.receipts_of(number), list[ProvableReceipt])
        kinds = [int(each.kind, 16) for each in signed]
        block["transactionsRoot"] = "0x" + list_root([envelope(each) for each in signed]).hex()
        block["receiptsRoot"] = "0x" + receipts_root(kinds, receipts).hex()
    _hash(chain)
    return chain
