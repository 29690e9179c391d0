"""One pass over the keys of a partition: which blocks look wrong, without asking anybody.

Files are sorted, so each row is compared with the one before it, and nothing is kept but counts.
What looks wrong is only a suspicion: the chain is asked about it, and decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trace_platform.domain.block_range import BlockRange

# Beyond, blocks are not counted one by one.
_COUNTED_BLOCKS = 10_000_000

KEYS: dict[str, tuple[str, ...]] = {
    "blocks": ("block_number",),
    "transactions": ("block_number", "transaction_index"),
    # Some chains count logs by transaction.
    "logs": ("block_number", "transaction_index", "log_index"),
    # In a block they stay as they are: depth first, as every node gives them.
    "traces": ("block_number",),
}
COLUMNS: dict[str, tuple[str, ...]] = {
    "blocks": ("block_number", "block_hash", "parent_hash", "transaction_count"),
    "transactions": KEYS["transactions"],
    "logs": KEYS["logs"],
    "traces": ("block_number", "trace_address", "subtraces"),
}


@dataclass(slots=True)
class Scan:
    """What one pass found."""

    blocks: BlockRange
    suspects: list[BlockRange] = field(default_factory=list)
    # Rows that do not belong into the partition: the lowest and the highest of their blocks.
    outside: BlockRange | None = None
    # Of each block. Its transactions: what blocks say of themselves, or how many rows there are.
    # Of traces: how many lie below another one, less than those say.
    counts: np.ndarray | None = None
    first_parent: bytes | None = None
    last_hash: bytes | None = None


def scan(table: str, blocks: BlockRange, batches: Iterable[pa.RecordBatch]) -> Scan:
    found = Scan(blocks)
    if table != "logs" and len(blocks) <= _COUNTED_BLOCKS:
        found.counts = np.zeros(len(blocks), np.int64)
    before: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        _see_outside(found, batch)
        _count(found, table, batch)
        joined = batch if before is None else pa.concat_batches([before, batch])
        _SEE.get(table, _see_children)(found, joined)
        if table == "blocks":
            found.first_parent = found.first_parent or batch["parent_hash"][0].as_py()
            found.last_hash = batch["block_hash"][-1].as_py()
        _see_begin(found, table, batch, is_first=before is None)
        before = batch.slice(batch.num_rows - 1)
    if table == "blocks":
        _see_end(found, before)
    if table == "traces" and found.counts is not None:
        (unequal,) = np.nonzero(found.counts)
        for place in unequal.tolist():
            _suspect(found, blocks.start + place, blocks.start + place)
    return found


def unequal_counts(said: Scan, counted: Scan) -> list[BlockRange]:
    """Blocks that say another number of transactions than there are rows, where both are known."""
    start = max(said.blocks.start, counted.blocks.start)
    end = min(said.blocks.end, counted.blocks.end)
    if end < start or said.counts is None or counted.counts is None:
        return []
    here = slice(start - said.blocks.start, end + 1 - said.blocks.start)
    there = slice(start - counted.blocks.start, end + 1 - counted.blocks.start)
    (places,) = np.nonzero(said.counts[here] != counted.counts[there])
    return [BlockRange(start + p, start + p) for p in places.tolist()]


def _numbers(batch: pa.RecordBatch, name: str = "block_number") -> np.ndarray:
    """A number that is not there belongs to no block."""
    return np.asarray(pc.fill_null(batch[name], -1).to_numpy(zero_copy_only=False), np.int64)


def _see_outside(found: Scan, batch: pa.RecordBatch) -> None:
    numbers = _numbers(batch)
    beyond = numbers[(numbers < found.blocks.start) | (numbers > found.blocks.end)]
    if len(beyond):
        low, high = max(int(beyond.min()), 0), max(int(beyond.max()), 0)
        if found.outside is not None:
            low, high = min(low, found.outside.start), max(high, found.outside.end)
        found.outside = BlockRange(low, high)


def _count(found: Scan, table: str, batch: pa.RecordBatch) -> None:
    if found.counts is None:
        return
    numbers = _numbers(batch)
    inside = (numbers >= found.blocks.start) & (numbers <= found.blocks.end)
    np.add.at(found.counts, numbers[inside] - found.blocks.start, _weights(table, batch)[inside])


def _weights(table: str, batch: pa.RecordBatch) -> np.ndarray:
    if table == "blocks":
        return _numbers(batch, "transaction_count")
    if table == "transactions":
        return np.ones(batch.num_rows, np.int64)
    below = pc.fill_null(pc.not_equal(batch["trace_address"], ""), False)
    less: np.ndarray = below.to_numpy(zero_copy_only=False) - _numbers(batch, "subtraces")
    return less


def _see_blocks(found: Scan, batch: pa.RecordBatch) -> None:
    """Each block follows the one before it, and is its child."""
    numbers = _numbers(batch)
    same = pc.equal(batch["block_hash"][:-1], batch["parent_hash"][1:])
    linked = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    (broken,) = np.nonzero((np.diff(numbers) != 1) | ~linked)
    for place in broken.tolist():
        _suspect(found, int(numbers[place]), int(numbers[place + 1]))


def _see_children(found: Scan, batch: pa.RecordBatch) -> None:
    """Each row is the next one of its block, or the first of a later one; of logs, or of a later
    transaction."""
    numbers, indexes = _numbers(batch), _numbers(batch, batch.schema.names[-1])
    same, later = np.diff(numbers) == 0, np.diff(numbers) > 0
    if batch.num_columns > 2:
        later |= same & (np.diff(_numbers(batch, "transaction_index")) > 0)
    fits = (same & (np.diff(indexes) == 1)) | (later & (indexes[1:] == 0))
    (broken,) = np.nonzero(~fits)
    for place in broken.tolist():
        _suspect(found, int(numbers[place]), int(numbers[place]))
        _suspect(found, int(numbers[place + 1]), int(numbers[place + 1]))


def _see_order(found: Scan, batch: pa.RecordBatch) -> None:
    """No row is of an earlier block than the one before it."""
    numbers = _numbers(batch)
    (broken,) = np.nonzero(np.diff(numbers) < 0)
    for place in broken.tolist():
        _suspect(found, int(numbers[place + 1]), int(numbers[place + 1]))


_SEE = {"blocks": _see_blocks, "traces": _see_order}


def _see_begin(found: Scan, table: str, batch: pa.RecordBatch, *, is_first: bool) -> None:
    if not is_first:
        return
    number = int(_numbers(batch)[0])
    if table == "blocks":
        if number != found.blocks.start:
            _suspect(found, found.blocks.start, number)
    elif table != "traces" and _numbers(batch, batch.schema.names[-1])[0] != 0:
        _suspect(found, number, number)


def _see_end(found: Scan, last: pa.RecordBatch | None) -> None:
    if last is None:
        _suspect(found, found.blocks.start, found.blocks.end)
        return
    number = int(_numbers(last)[0])
    if number != found.blocks.end:
        _suspect(found, number, found.blocks.end)


def _suspect(found: Scan, one: int, other: int) -> None:
    """From one to the other, as far as they belong to the partition."""
    low = max(min(one, other), found.blocks.start)
    high = min(max(one, other), found.blocks.end)
    if low <= high:
        found.suspects.append(BlockRange(low, high))
