"""The receipts root: of each transaction's type and status, the gas of the block so far, and its
logs; the bloom is made of the logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate

from msgspec import field

from trace_platform.domain.evm_encoding import BLOOM_BYTES, Item, bloom_bits, encoded
from trace_platform.domain.evm_hex import data, quantity
from trace_platform.operators.evm.payload import Log, Receipt
from trace_platform.operators.evm_header.trie import list_root

# The same few addresses and topics are in most blocks.
_bits = lru_cache(maxsize=65_536)(bloom_bits)


class ProvableReceipt(Receipt, gc=False, kw_only=True):
    """With what no column has and the root, or another answer, tells."""

    sender: str | None = field(name="from", default=None)
    # Before Byzantium receipts held a state root instead of a status.
    root: str | None = None


def receipts_root(kinds: Sequence[int], receipts: Sequence[ProvableReceipt]) -> bytes:
    """`kinds`: the transactions' types. Raise ValueError for what is missing or no hex."""
    so_far = accumulate(quantity(receipt.gas_used, "gasUsed") for receipt in receipts)
    return list_root(
        [
            _encoded(kind, receipt, gas)
            for kind, receipt, gas in zip(kinds, receipts, so_far, strict=True)
        ]
    )


def _encoded(kind: int, receipt: ProvableReceipt, gas_so_far: int) -> bytes:
    logs: list[Item] = []
    bits = 0
    for log in receipt.logs:
        words = [data(each, "address or topic") for each in (log.address, *log.topics)]
        bits |= bloom(words)
        logs.append([words[0], words[1:], data(log.data, "data")])
    body = encoded([_outcome(receipt), gas_so_far, bits.to_bytes(BLOOM_BYTES, "big"), logs])
    return bytes([kind]) + body if kind else body


def bloom(words: Iterable[bytes]) -> int:
    """Three bits each for the address and every topic of a log."""
    bits = 0
    for word in words:
        bits |= _bits(word)
    return bits


def _outcome(receipt: ProvableReceipt) -> Item:
    if receipt.status is not None:
        return quantity(receipt.status, "status")
    if receipt.root is None:
        raise ValueError("a receipt has neither a status nor a root")
    return data(receipt.root, "root")


def log_places(receipts: Iterable[Receipt]) -> Iterable[tuple[int, Log]]:
    """Each log of a block with its place in it."""
    return enumerate(log for receipt in receipts for log in receipt.logs)
