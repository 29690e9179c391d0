"""The receipts root, from the columns of transactions and logs.

A receipt is the transaction's type and status, the gas of the block so far, and its logs; the
bloom is made of the logs. Receipts from before Byzantium hold a state root instead of a status,
which no column has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import pyarrow as pa

from trace_platform.domain.evm_encoding import BLOOM_BYTES, Item, bloom_bits, encoded
from trace_platform.operators.evm_header.trie import list_root

_KNOWN_TYPES = range(5)
_INT64_MAX = 2**63 - 1
_NOBODY = bytes(20)
# The same few addresses and topics are in most blocks.
_bits = lru_cache(maxsize=65_536)(bloom_bits)

Log = tuple[bytes, list[bytes], bytes]


def receipts_roots(transactions: pa.Table, logs: pa.Table) -> dict[int, bytes]:
    """By block number, of blocks with transactions, without those that are `untold`. Rows are in
    the order of the chain."""
    logs_of, without = _logs_of(logs), untold(transactions)
    names = ("block_number", "transaction_index", "transaction_type", "success", "gas_used")
    by_block: dict[int, list[tuple[int, int, bool | None, int]]] = defaultdict(list)
    for number, *receipt in zip(*(transactions[n].to_pylist() for n in names), strict=True):
        by_block[number].append((receipt[0], receipt[1], receipt[2], receipt[3]))
    return {
        number: _root(rows, [logs_of.get((number, row[0]), []) for row in rows])
        for number, rows in by_block.items()
        if number not in without
    }


def untold(transactions: pa.Table) -> dict[int, str]:
    """By block number: why the columns do not tell the receipts that the root is made of."""
    found: dict[int, str] = {}
    names = ("block_number", "transaction_type", "success", "gas_used", "from_address")
    for number, *transaction in zip(*(transactions[n].to_pylist() for n in names), strict=True):
        why = _why_untold(*transaction)
        if why is not None:
            found.setdefault(number, why)
    return found


def _why_untold(kind: int, success: bool | None, gas_used: int, sender: bytes) -> str | None:
    if kind not in _KNOWN_TYPES:
        return f"a transaction is of type {kind:#x}"
    if success is None:
        return "receipts from before Byzantium have a state root"
    if gas_used == _INT64_MAX:
        return "gas_used is above int64"
    # Of a chain's own transactions, which some chains show and leave out of the root.
    return "nobody sent a transaction" if sender == _NOBODY else None


def bloom(logs: Iterable[Log]) -> bytes:
    """Three bits each for the address and every topic of every log."""
    bits = 0
    for address, topics, _ in logs:
        for word in (address, *topics):
            bits |= _bits(word)
    return bits.to_bytes(BLOOM_BYTES, "big")


def _root(rows: Sequence[tuple[int, int, bool | None, int]], logs: Sequence[list[Log]]) -> bytes:
    so_far = accumulate(gas for *_, gas in rows)
    return list_root(
        [
            _receipt(kind, bool(success), gas, own)
            for (_, kind, success, _), gas, own in zip(rows, so_far, logs, strict=True)
        ]
    )


def _receipt(kind: int, success: bool, gas_so_far: int, logs: list[Log]) -> bytes:
    told: list[Item] = [[address, topics, data] for address, topics, data in logs]
    body = encoded([int(success), gas_so_far, bloom(logs), told])
    return bytes([kind]) + body if kind else body


def _logs_of(logs: pa.Table) -> dict[tuple[int, int], list[Log]]:
    found: dict[tuple[int, int], list[Log]] = defaultdict(list)
    names = ("block_number", "transaction_index", "address", "data", *_TOPICS)
    rows: Iterable[tuple[Any, ...]] = zip(*(logs[n].to_pylist() for n in names), strict=True)
    for number, index, address, data, *topics in rows:
        found[number, index].append((address, [t for t in topics if t is not None], data))
    return found


_TOPICS = ("topic0", "topic1", "topic2", "topic3")
