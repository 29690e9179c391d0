"""Structs to Arrow columns. Hex is decoded a column at a time: one join, one unhexlify.

Every function raises ValueError for text that is not what the column holds.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from itertools import chain, compress, repeat

import numpy as np
import pyarrow as pa

from trace_platform.operators.evm import schema
from trace_platform.operators.evm.payload import Block, Log, Receipt, Transaction

_INT64_MAX = 2**63 - 1
_HASH, _ADDRESS = 32, 20


def block_columns(blocks: Sequence[Block], chain_id: int) -> pa.RecordBatch:
    columns = [
        fixed_hex([b.hash for b in blocks], _HASH),
        fixed_hex([b.miner for b in blocks], _ADDRESS),
        quantities([b.number for b in blocks]),
        quantities([b.gas_used for b in blocks]),
        variable_hex([b.extra_data for b in blocks]),
        quantities([b.timestamp for b in blocks]),
        optional_quantities([b.base_fee for b in blocks]),
        _constant(chain_id, len(blocks)),
        fixed_hex([b.parent_hash for b in blocks], _HASH),
        fixed_hex([b.state_root for b in blocks], _HASH),
        fixed_hex([b.transactions_root for b in blocks], _HASH),
        fixed_hex([b.receipts_root for b in blocks], _HASH),
        caps([b.gas_limit for b in blocks]),
        optional_quantities([b.size for b in blocks]),
        pa.array([len(b.transactions) for b in blocks], pa.int64()),
        optional_quantities([b.blob_gas_used for b in blocks]),
        optional_quantities([b.excess_blob_gas for b in blocks]),
        optional_fixed_hex([b.withdrawals_root for b in blocks], _HASH),
        pa.array([len(b.uncles) for b in blocks], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.BLOCKS)


def transaction_columns(
    blocks: pa.RecordBatch, transactions: Sequence[Transaction], receipts: Sequence[Receipt]
) -> pa.RecordBatch:
    """One row per transaction; `blocks` are the same blocks' columns, in the same order."""
    block_of, index = _positions(blocks["transaction_count"].to_numpy())
    inputs = variable_hex([t.input for t in transactions])
    n_bytes, n_zero = _count_bytes(inputs)
    columns = [
        blocks["block_number"].take(block_of),
        pa.array(index),
        fixed_hex([t.hash for t in transactions], _HASH),
        quantities([t.nonce for t in transactions]),
        fixed_hex([t.sender for t in transactions], _ADDRESS),
        optional_fixed_hex([t.to for t in transactions], _ADDRESS),
        *uint256([t.value for t in transactions]),
        inputs,
        quantities([t.gas for t in transactions]),
        quantities([r.gas_used for r in receipts]),
        optional_quantities([t.gas_price for t in transactions]),
        quantities([t.kind for t in transactions]),
        optional_caps([t.max_priority_fee for t in transactions]),
        optional_caps([t.max_fee for t in transactions]),
        _success([r.status for r in receipts]),
        pa.array(n_bytes),
        pa.array(n_zero),
        pa.array(n_bytes - n_zero),
        blocks["chain_id"].take(block_of),
        blocks["block_hash"].take(block_of),
        blocks["parent_hash"].take(block_of),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.TRANSACTIONS)


def log_columns(transactions: pa.RecordBatch, receipts: Sequence[Receipt]) -> pa.RecordBatch:
    """One row per log; `transactions` are the columns that the receipts belong to."""
    counts = np.fromiter((len(r.logs) for r in receipts), np.int64, len(receipts))
    logs: list[Log] = list(chain.from_iterable([r.logs for r in receipts]))
    transaction_of, _ = _positions(counts)
    numbers = transactions["block_number"].take(transaction_of)
    indexes = quantities([g.index for g in logs])
    _check_order(numbers.to_numpy(), indexes.to_numpy())
    columns = [
        numbers,
        transactions["transaction_index"].take(transaction_of),
        indexes,
        transactions["transaction_hash"].take(transaction_of),
        fixed_hex([g.address for g in logs], _ADDRESS),
        *topics([g.topics for g in logs]),
        variable_hex([g.data for g in logs]),
        transactions["chain_id"].take(transaction_of),
        transactions["block_hash"].take(transaction_of),
        transactions["parent_hash"].take(transaction_of),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.LOGS)


def _check_order(blocks: np.ndarray, indexes: np.ndarray) -> None:
    """Within a block each log comes after the one before it: none is twice, none is moved."""
    wrong = (np.diff(blocks) == 0) & (np.diff(indexes) <= 0)
    if wrong.any():
        raise ValueError(f"the logs of block {blocks[:-1][wrong][0]} are out of order")


def fixed_hex(values: Sequence[str], width: int) -> pa.Array:
    """`0x…` of exactly `width` bytes each."""
    return _binary_array(_unhex_fixed(values, width), np.full(len(values), width, np.int64))


def optional_fixed_hex(values: Sequence[str | None], width: int) -> pa.Array:
    present = np.fromiter((v is not None for v in values), np.bool_, len(values))
    if present.all():
        return fixed_hex([v for v in values if v is not None], width)
    data = _unhex_fixed([v for v in values if v is not None], width)
    return _binary_array(data, present * np.int64(width), present)


def variable_hex(values: Sequence[str]) -> pa.Array:
    """`0x…` of any even length."""
    joined = np.frombuffer("".join(values).encode("ascii"), np.uint8)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    if (lengths < 2).any() or (lengths & 1).any():
        raise ValueError("hex data has an odd number of digits")
    starts = np.cumsum(lengths) - lengths
    if (joined[starts] != ord("0")).any() or (joined[starts + 1] != ord("x")).any():
        raise ValueError("hex data does not start with 0x")
    # An x is in a prefix or nowhere (the sizes below tell), so this drops just the prefixes.
    data = binascii.unhexlify(joined.tobytes().replace(b"0x", b""))
    sizes = lengths // 2 - 1
    if len(data) != sizes.sum():
        raise ValueError("hex data has a second 0x")
    return _binary_array(data, sizes)


def optional_variable_hex(values: Sequence[str | None]) -> pa.Array:
    present = np.fromiter((v is not None for v in values), np.bool_, len(values))
    found = variable_hex([v for v in values if v is not None])
    if present.all():
        return found
    offsets = np.frombuffer(found.buffers()[1], np.int32)[: len(found) + 1]
    lengths = np.zeros(len(values), np.int64)
    lengths[present] = np.diff(offsets)
    return _binary_array(found.buffers()[2], lengths, present)


def topics(rows: Sequence[Sequence[str]]) -> list[pa.Array]:
    """The four topic columns; a topic that a log does not have is null."""
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    if (counts > 4).any():
        raise ValueError("a log has more than four topics")
    return [_topic(rows, counts, i) for i in range(4)]


def _topic(rows: Sequence[Sequence[str]], counts: np.ndarray, i: int) -> pa.Array:
    present = counts > i
    if present.all():
        return fixed_hex([row[i] for row in rows], _HASH)
    data = _unhex_fixed([row[i] for row in compress(rows, present)], _HASH)
    return _binary_array(data, present * np.int64(_HASH), present)


def quantities(values: Sequence[str]) -> pa.Array:
    """Hex numbers that fit an int64."""
    try:
        numbers = np.fromiter(map(int, values, repeat(16)), np.int64, len(values))
    except OverflowError:
        raise ValueError("a number does not fit 64 bits") from None
    if (numbers < 0).any():
        raise ValueError("a number is negative")
    return pa.array(numbers)


def optional_quantities(values: Sequence[str | None]) -> pa.Array:
    if None not in values:
        return quantities(values)  # type: ignore[arg-type]
    return pa.array([None if v is None else _fitting(int(v, 16)) for v in values], pa.int64())


def caps(values: Sequence[str]) -> pa.Array:
    """Limits that people set, some to the largest number there is: they stop at 2^63-1."""
    try:
        return quantities(values)
    except ValueError:
        return optional_caps(values)


def optional_caps(values: Sequence[str | None]) -> pa.Array:
    try:
        return optional_quantities(values)
    except ValueError:
        capped = [None if v is None else min(int(v, 16), _INT64_MAX) for v in values]
        return pa.array(capped, pa.int64())


def uint256(values: Sequence[str]) -> list[pa.Array]:
    """Binary, decimal text and double of each number."""
    numbers = [int(v, 16) for v in values]
    try:
        data = b"".join([n.to_bytes(32, "big") for n in numbers])
    except OverflowError:
        raise ValueError("a number does not fit 256 bits") from None
    return [
        _binary_array(data, np.full(len(numbers), 32, np.int64)),
        pa.array(list(map(str, numbers)), pa.string()),
        pa.array(np.fromiter(map(float, numbers), np.float64, len(numbers))),
    ]


def _fitting(number: int) -> int:
    if not 0 <= number <= _INT64_MAX:
        raise ValueError("a number does not fit 64 bits")
    return number


def _success(statuses: Sequence[str | None]) -> pa.Array:
    return pa.array([None if s is None else int(s, 16) == 1 for s in statuses], pa.bool_())


def _unhex_fixed(values: Sequence[str], width: int) -> bytes:
    joined = np.frombuffer("".join(values).encode("ascii"), np.uint8)
    if len(joined) != len(values) * (2 + 2 * width):
        raise ValueError(f"a value is not {width} bytes of hex")
    rows = joined.reshape(len(values), 2 + 2 * width)
    # A value of another length shifts the prefixes after it, and unhexlify refuses an x.
    if (rows[:, 0] != ord("0")).any() or (rows[:, 1] != ord("x")).any():
        raise ValueError(f"a value is not {width} bytes of hex")
    return binascii.unhexlify(rows[:, 2:].tobytes())


def _binary_array(
    data: bytes | pa.Buffer, lengths: np.ndarray, present: np.ndarray | None = None
) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:], dtype=np.int32)
    valid, nulls = None, 0
    if present is not None:
        valid = pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
        nulls = int(len(present) - present.sum())
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers, null_count=nulls)


def _positions(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For children laid out parent by parent: each one's parent, and its place in it."""
    parent = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    return parent, np.arange(len(parent)) - first[parent]


def _count_bytes(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The number of bytes, and of zero bytes, of each value."""
    _, offset_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[: len(values) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    zeros = np.zeros(int(offsets[-1]) + 1, np.bool_)  # one more: an empty last value starts there
    np.equal(np.frombuffer(data_buffer, np.uint8)[: offsets[-1]], 0, out=zeros[:-1])
    # reduceat gives the element itself for an empty slice.
    counts = np.add.reduceat(zeros, offsets[:-1], dtype=np.int64)
    return lengths, np.where(lengths == 0, 0, counts)


def _constant(value: int, n: int) -> pa.Array:
    return pa.array(np.full(n, value, np.int64))
