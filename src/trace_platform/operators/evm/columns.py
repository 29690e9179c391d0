"""Blocks, transactions and logs to Arrow columns.

Every function raises ValueError for a value that is not what its column holds, and names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from trace_platform.domain.evm_hex import quantity
from trace_platform.operators.evm import schema
from trace_platform.operators.evm.fields import Fields
from trace_platform.operators.evm.hex_columns import (
    ADDRESS,
    HASH,
    fixed_hex,
    flags,
    optional_fixed_hex,
    optional_variable_hex,
    quantities,
    topics,
    uint256,
    variable_hex,
)
from trace_platform.operators.evm.payload import Block, Log, Receipt, Transaction, created_by


def block_columns(blocks: Sequence[Block], chain_id: int) -> pa.RecordBatch:
    fields = Fields(len(blocks), lambda row: f"block {quantity(blocks[row].number, 'number')}")
    read, amounts = fields.read, fields.amounts
    columns = [
        read("hash", fixed_hex, [b.hash for b in blocks], HASH),
        read("miner", fixed_hex, [b.miner for b in blocks], ADDRESS),
        read("number", quantities, [b.number for b in blocks]),
        amounts("gas_used", "gasUsed", [b.gas_used for b in blocks]),
        read("extraData", variable_hex, [b.extra_data for b in blocks]),
        read("timestamp", quantities, [b.timestamp for b in blocks]),
        amounts("base_fee_per_gas", "baseFeePerGas", [b.base_fee for b in blocks]),
        _constant(chain_id, len(blocks)),
        read("parentHash", fixed_hex, [b.parent_hash for b in blocks], HASH),
        read("stateRoot", fixed_hex, [b.state_root for b in blocks], HASH),
        read("transactionsRoot", fixed_hex, [b.transactions_root for b in blocks], HASH),
        read("receiptsRoot", fixed_hex, [b.receipts_root for b in blocks], HASH),
        amounts("gas_limit", "gasLimit", [b.gas_limit for b in blocks]),
        amounts("size", "size", [b.size for b in blocks]),
        pa.array([len(b.transactions) for b in blocks], pa.int64()),
        amounts("blob_gas_used", "blobGasUsed", [b.blob_gas_used for b in blocks]),
        amounts("excess_blob_gas", "excessBlobGas", [b.excess_blob_gas for b in blocks]),
        read("withdrawalsRoot", optional_fixed_hex, [b.withdrawals_root for b in blocks], HASH),
        pa.array([len(b.uncles) for b in blocks], pa.int64()),
        fields.above_int64(),
        read("logsBloom", optional_variable_hex, [b.logs_bloom for b in blocks]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.BLOCKS)


def transaction_columns(
    blocks: pa.RecordBatch, transactions: Sequence[Transaction], receipts: Sequence[Receipt]
) -> pa.RecordBatch:
    """One row per transaction; `blocks` are the same blocks' columns, in the same order."""
    block_of, index = _positions(blocks["transaction_count"].to_numpy())
    numbers = blocks["block_number"].take(block_of)
    fields = Fields(
        len(transactions), lambda row: f"transaction {index[row]} of block {numbers[row]}"
    )
    read, amounts = fields.read, fields.amounts
    inputs = read("input", variable_hex, [t.input for t in transactions])
    n_bytes, n_zero = _count_bytes(inputs)
    columns = [
        numbers,
        pa.array(index),
        read("hash", fixed_hex, [t.hash for t in transactions], HASH),
        amounts("nonce", "nonce", [t.nonce for t in transactions]),
        read("from", fixed_hex, [t.sender for t in transactions], ADDRESS),
        read("to", optional_fixed_hex, [t.to for t in transactions], ADDRESS),
        *read("value", uint256, [t.value for t in transactions]),
        inputs,
        amounts("gas_limit", "gas", [t.gas for t in transactions]),
        amounts("gas_used", "gasUsed", [r.gas_used for r in receipts]),
        amounts("gas_price", "gasPrice", [t.gas_price for t in transactions]),
        read("type", quantities, [t.kind for t in transactions]),
        amounts(
            "max_priority_fee_per_gas",
            "maxPriorityFeePerGas",
            [t.max_priority_fee for t in transactions],
        ),
        amounts("max_fee_per_gas", "maxFeePerGas", [t.max_fee for t in transactions]),
        read("status", flags, [r.status for r in receipts]),
        pa.array(n_bytes),
        pa.array(n_zero),
        pa.array(n_bytes - n_zero),
        blocks["chain_id"].take(block_of),
        blocks["block_hash"].take(block_of),
        blocks["parent_hash"].take(block_of),
        fields.above_int64(),
        blocks["timestamp"].take(block_of),
        read("contractAddress", optional_fixed_hex, [created_by(r) for r in receipts], ADDRESS),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.TRANSACTIONS)


def log_columns(transactions: pa.RecordBatch, receipts: Sequence[Receipt]) -> pa.RecordBatch:
    """One row per log; `transactions` are the columns that the receipts belong to."""
    counts = np.fromiter((len(r.logs) for r in receipts), np.int64, len(receipts))
    logs: list[Log] = list(chain.from_iterable([r.logs for r in receipts]))
    transaction_of, place = _positions(counts)
    numbers = transactions["block_number"].take(transaction_of)
    within = transactions["transaction_index"].take(transaction_of)
    fields = Fields(
        len(logs),
        lambda row: f"log {place[row]} of transaction {within[row]} of block {numbers[row]}",
    )
    read = fields.read
    indexes = read("logIndex", quantities, [g.index for g in logs])
    _check_order(numbers.to_numpy(), within.to_numpy(), indexes.to_numpy())
    columns = [
        numbers,
        within,
        indexes,
        transactions["transaction_hash"].take(transaction_of),
        read("address", fixed_hex, [g.address for g in logs], ADDRESS),
        *read("topics", topics, [g.topics for g in logs]),
        read("data", variable_hex, [g.data for g in logs]),
        transactions["chain_id"].take(transaction_of),
        transactions["block_hash"].take(transaction_of),
        transactions["parent_hash"].take(transaction_of),
        transactions["timestamp"].take(transaction_of),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.LOGS)


def _check_order(blocks: np.ndarray, transactions: np.ndarray, indexes: np.ndarray) -> None:
    """Within a block each log comes after the one before it: none is twice, none is moved. Some
    chains count logs by transaction, so that the next one begins at 0 again, as the block did."""
    same_block = np.diff(blocks) == 0
    begins = np.flatnonzero(np.concatenate([[True], ~same_block])[: len(blocks)])
    from_zero = np.repeat(indexes[begins] == 0, np.diff(np.append(begins, len(blocks))))[1:]
    again = (np.diff(transactions) > 0) & (indexes[1:] == 0) & from_zero
    wrong = same_block & (np.diff(indexes) <= 0) & ~again
    if wrong.any():
        raise ValueError(f"the logs of block {blocks[:-1][wrong][0]} are out of order")


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
