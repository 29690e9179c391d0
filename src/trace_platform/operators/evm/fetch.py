"""A block range as consistent Arrow tables, in one pass and bounded memory.

Blocks and receipts are asked for in one JSON-RPC batch, and logs are taken from the receipts:
the three tables of a range come from the same answers, so they cannot be of two forks.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

import msgspec
import pyarrow as pa

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import MalformedBlock, RpcUnreachable
from trace_platform.operators.evm import columns
from trace_platform.operators.evm.partitions import pieces
from trace_platform.operators.evm.payload import Block, Receipt
from trace_platform.operators.evm.rpc import AnswerTooLarge, RpcClient, RpcFault, is_missing_method

# Answers are turned into columns once this many transactions and logs wait: larger batches
# spread the fixed cost of an Arrow column, and what waits is all that is held in memory.
_ROWS_PER_CHUNK = 16_384
_RECEIPTS_PER_CALL = 200


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of consecutive blocks."""

    blocks: pa.RecordBatch
    transactions: pa.RecordBatch
    logs: pa.RecordBatch


@dataclass(slots=True)
class _Answers:
    blocks: list[Block] = field(default_factory=list)
    receipts: list[list[Receipt]] = field(default_factory=list)  # of each block

    def __iadd__(self, other: _Answers) -> _Answers:
        self.blocks += other.blocks
        self.receipts += other.receipts
        return self

    @property
    def rows(self) -> int:
        logs = sum([len(r.logs) for receipts in self.receipts for r in receipts])
        return logs + sum(map(len, self.receipts)) + len(self.blocks)


class _BlockAnswer(msgspec.Struct, gc=False):
    """A block or its receipts: the JSON types differ, so one decoder takes both."""

    id: int | None = None
    result: Block | list[Receipt] | None = None
    error: RpcFault | None = None


class _ReceiptAnswer(msgspec.Struct, gc=False):
    id: int | None = None
    result: Receipt | None = None
    error: RpcFault | None = None


_block_batch = msgspec.json.Decoder(list[_BlockAnswer] | _BlockAnswer)
_receipt_batch = msgspec.json.Decoder(list[_ReceiptAnswer] | _ReceiptAnswer)


class RangeFetcher:
    """Reads ranges from one node, with `in_flight` batches under way at a time."""

    def __init__(
        self,
        client: RpcClient,
        chain_id: int,
        *,
        batch_blocks: int = 50,
        in_flight: int = 2,
    ) -> None:
        self._client = client
        self._chain_id = chain_id
        self._batch_blocks = batch_blocks
        self._in_flight = in_flight
        self._block_receipts = True  # until the node says that it has no such method

    def chunks(self, blocks: BlockRange) -> Iterator[Chunk]:
        """The range's rows in order of block. Raises RpcUnreachable or MalformedBlock."""
        with _no_gc():
            parent: str | None = None
            waiting, rows = _Answers(), 0
            for answers in self._prefetched(blocks):
                parent = _check_links(answers.blocks, parent)
                waiting += answers
                rows += answers.rows
                if rows >= _ROWS_PER_CHUNK:
                    yield self._to_chunk(waiting)
                    waiting, rows = _Answers(), 0
            if waiting.blocks:
                yield self._to_chunk(waiting)

    def _prefetched(self, blocks: BlockRange) -> Iterator[_Answers]:
        """While one answer is turned into columns the next ones are already under way."""
        pool = ThreadPoolExecutor(self._in_flight, thread_name_prefix="evm-fetch")
        under_way: deque[Future[_Answers]] = deque()
        try:
            for piece in pieces(blocks, self._batch_blocks):
                under_way.append(pool.submit(self._fetch, piece))
                if len(under_way) > self._in_flight:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            # Not waited for: a hanging node must not keep a cancelled task.
            pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, blocks: BlockRange) -> _Answers:
        try:
            answers = self._ask(blocks)
        except AnswerTooLarge as error:
            if len(blocks) == 1:
                raise RpcUnreachable(
                    f"{self._client.endpoint} cannot answer for block {blocks.start}: {error}"
                ) from None
            middle = blocks.start + len(blocks) // 2
            answers = self._fetch(BlockRange(blocks.start, middle - 1))
            answers += self._fetch(BlockRange(middle, blocks.end))
            return answers
        for number, block, receipts in zip(
            range(blocks.start, blocks.end + 1), answers.blocks, answers.receipts, strict=True
        ):
            _check_block(number, block, receipts)
        return answers

    def _ask(self, blocks: BlockRange) -> _Answers:
        if not self._block_receipts:
            return self._ask_by_transaction(blocks)
        numbers = range(blocks.start, blocks.end + 1)
        answers = self._client.batch(
            [
                *(("eth_getBlockByNumber", (hex(n), True)) for n in numbers),
                *(("eth_getBlockReceipts", (hex(n),)) for n in numbers),
            ],
            _block_batch,
        )
        headers, receipts = answers[: len(blocks)], answers[len(blocks) :]
        if any(a.error is not None and is_missing_method(a.error) for a in receipts):
            self._block_receipts = False
            return self._ask_by_transaction(blocks)
        return _Answers(
            [self._block(n, a) for n, a in zip(numbers, headers, strict=True)],
            [self._receipts(n, a) for n, a in zip(numbers, receipts, strict=True)],
        )

    def _ask_by_transaction(self, blocks: BlockRange) -> _Answers:
        """The slow way, for nodes without eth_getBlockReceipts: receipts one by one."""
        numbers = range(blocks.start, blocks.end + 1)
        answers = self._client.batch(
            [("eth_getBlockByNumber", (hex(n), True)) for n in numbers], _block_batch
        )
        found = [self._block(n, a) for n, a in zip(numbers, answers, strict=True)]
        hashes = [t.hash for block in found for t in block.transactions]
        one_by_one = iter([r for piece in _slices(hashes) for r in self._receipts_of(piece)])
        return _Answers(found, [[next(one_by_one) for _ in b.transactions] for b in found])

    def _receipts_of(self, hashes: list[str]) -> Iterator[Receipt]:
        calls = [("eth_getTransactionReceipt", (h,)) for h in hashes]
        for answer in self._client.batch(calls, _receipt_batch):
            if answer.error is not None:
                raise self._client.refusal(answer.error, "eth_getTransactionReceipt")
            if answer.result is None:
                raise RpcUnreachable(f"{self._client.endpoint} lacks a transaction's receipt")
            yield answer.result

    def _block(self, number: int, answer: _BlockAnswer) -> Block:
        if answer.error is not None:
            raise self._client.refusal(answer.error, f"block {number}")
        if answer.result is None:
            raise RpcUnreachable(
                f"{self._client.endpoint} does not have block {number} (yet)",
                hint="the range ends beyond the node's head, or the node lags",
                block=number,
            )
        if not isinstance(answer.result, Block):
            raise MalformedBlock(f"the answer for block {number} is not a block")
        return answer.result

    def _receipts(self, number: int, answer: _BlockAnswer) -> list[Receipt]:
        if answer.error is not None:
            raise self._client.refusal(answer.error, f"the receipts of block {number}")
        if isinstance(answer.result, Block):
            raise MalformedBlock(f"the answer for the receipts of block {number} is a block")
        # Some nodes say null for the receipts of an empty block; the count is checked below.
        return answer.result or []

    def _to_chunk(self, answers: _Answers) -> Chunk:
        transactions = list(chain.from_iterable([b.transactions for b in answers.blocks]))
        receipts = list(chain.from_iterable(answers.receipts))
        try:
            blocks = columns.block_columns(answers.blocks, self._chain_id)
            rows = columns.transaction_columns(blocks, transactions, receipts)
            return Chunk(blocks, rows, columns.log_columns(rows, receipts))
        except ValueError as error:
            first, last = answers.blocks[0].number, answers.blocks[-1].number
            raise MalformedBlock(
                f"blocks {int(first, 16)} to {int(last, 16)} hold a bad value: {error}"
            ) from None


def _check_block(number: int, block: Block, receipts: list[Receipt]) -> None:
    if not _is_number(block.number, number):
        raise MalformedBlock(f"asked for block {number}, got block {block.number[:20]}")
    if len(receipts) != len(block.transactions):
        raise MalformedBlock(
            f"block {number} has {len(block.transactions)} transactions, {len(receipts)} receipts"
        )
    if any(receipt.block_hash != block.hash for receipt in receipts):
        raise MalformedBlock(
            f"a receipt of block {number} is of another block",
            hint="the chain moved while it was read",
        )
    if [t.hash for t in block.transactions] != [r.transaction_hash for r in receipts]:
        raise MalformedBlock(f"the receipts of block {number} are of other transactions")
    if [t.index for t in block.transactions] != _indexes(len(receipts)):
        raise MalformedBlock(f"the transactions of block {number} are out of order")


def _check_links(blocks: Iterable[Block], parent: str | None) -> str | None:
    """The hash of the last block, after each is known to be a child of the one before it."""
    for block in blocks:
        if parent is not None and block.parent_hash != parent:
            raise MalformedBlock(
                f"block {int(block.number, 16)} is not a child of the block before it",
                hint="the chain moved while it was read",
            )
        parent = block.hash
    return parent


def _is_number(text: str, number: int) -> bool:
    try:
        return int(text, 16) == number
    except ValueError:
        return False


_hex_indexes: list[str] = []


def _indexes(n: int) -> list[str]:
    if len(_hex_indexes) < n:
        _hex_indexes[:] = [hex(i) for i in range(2 * n)]
    return _hex_indexes[:n]


def _slices(hashes: list[str]) -> Iterator[list[str]]:
    for i in range(0, len(hashes), _RECEIPTS_PER_CALL):
        yield hashes[i : i + _RECEIPTS_PER_CALL]


@contextmanager
def _no_gc() -> Iterator[None]:
    """Nothing here makes cycles, and a collection would walk every struct that waits."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
