"""What a node's answers about a block have to agree on. Each function raises MalformedBlock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from trace_platform.domain.errors import MalformedBlock
from trace_platform.domain.evm_hex import quantity
from trace_platform.operators.evm.payload import Block, Receipt, Trace

_MOVED = "the chain moved while it was read"


def check_block(number: int, block: Block) -> None:
    """It is the block asked for."""
    if not _is_number(block.number, number):
        raise MalformedBlock(f"asked for block {number}, got block {block.number[:20]}")
    indexes = [t.index for t in block.transactions]
    if indexes != _indexes(len(indexes)) and not all(map(_is_number, indexes, count())):
        raise MalformedBlock(f"the transactions of block {number} are out of order")


def check_receipts(block: Block, receipts: Sequence[Receipt]) -> None:
    """There is one of each transaction, in order, and not all logs are missing. The block is
    checked."""
    number = quantity(block.number, "number")
    if len(receipts) != len(block.transactions):
        raise MalformedBlock(
            f"block {number} has {len(block.transactions)} transactions, {len(receipts)} receipts"
        )
    if any(receipt.block_hash != block.hash for receipt in receipts):
        raise MalformedBlock(f"a receipt of block {number} is of another block", hint=_MOVED)
    if [t.hash for t in block.transactions] != [r.transaction_hash for r in receipts]:
        raise MalformedBlock(f"the receipts of block {number} are of other transactions")
    # Not the other way round: some chains have logs, and a bloom that is always empty.
    if not any(receipt.logs for receipt in receipts) and _has_bits(block.logs_bloom):
        raise MalformedBlock(
            f"block {number} has no logs, and its logsBloom says that it has",
            hint="a node that has not indexed the block yet, or prunes logs, answers so",
        )


def check_traces(block: Block, traces: list[Trace]) -> None:
    """They are of this block and its transactions. Not every transaction has one: some chains
    have transactions of their own that nothing executes. The block is checked."""
    number = quantity(block.number, "number")
    if block.transactions and not traces:
        raise MalformedBlock(f"block {number} has {len(block.transactions)} transactions, 0 traces")
    if any(trace.block_hash != block.hash for trace in traces):
        raise MalformedBlock(f"a trace of block {number} is of another block", hint=_MOVED)
    hashes = [t.hash for t in block.transactions]
    if any(not _is_of(trace, hashes) for trace in traces):
        raise MalformedBlock(f"a trace of block {number} is of another transaction")


def _is_of(trace: Trace, hashes: list[str]) -> bool:
    if trace.transaction_index is None:
        return trace.transaction_hash is None
    at = trace.transaction_index
    return 0 <= at < len(hashes) and hashes[at] == trace.transaction_hash


def check_links(blocks: Iterable[Block], parent: str | None) -> str | None:
    """The hash of the last block, after each is known to be a child of the one before it."""
    for block in blocks:
        if parent is not None and block.parent_hash != parent:
            raise MalformedBlock(
                f"block {quantity(block.number, 'number')} is not a child of the block before it",
                hint=_MOVED,
            )
        parent = block.hash
    return parent


def _has_bits(bloom: str | None) -> bool:
    return bool((bloom or "").removeprefix("0x").strip("0"))


def _is_number(text: str, number: int) -> bool:
    try:
        return quantity(text, "number") == number
    except ValueError:
        return False


_hex_indexes: list[str] = []


def _indexes(n: int) -> list[str]:
    if len(_hex_indexes) < n:
        _hex_indexes[:] = [hex(i) for i in range(2 * n)]
    return _hex_indexes[:n]
