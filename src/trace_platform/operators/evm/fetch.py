"""A block range as consistent Arrow tables, in one pass and bounded memory.

Blocks and receipts are asked for in one JSON-RPC batch, and logs are taken from the receipts:
the tables of a range come from the same answers, so they cannot be of two forks.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import (
    MalformedBlock,
    NodeContradictsItself,
    ProvidersDisagree,
    RpcUnreachable,
)
from trace_platform.domain.evm_hex import quantity
from trace_platform.operators.evm.checks import (
    check_block,
    check_links,
    check_receipts,
    check_traces,
)
from trace_platform.operators.evm.columns import block_columns, log_columns, transaction_columns
from trace_platform.operators.evm.node import Answers, Header, Node
from trace_platform.operators.evm.pace import Pace
from trace_platform.operators.evm.payload import Block
from trace_platform.operators.evm.rpc import AnswerTooLarge, RpcClient
from trace_platform.operators.evm.schema import DEFAULT_TABLES, LOGS, TRACES, TRANSACTIONS
from trace_platform.operators.evm.trace_columns import trace_columns
from trace_platform.operators.evm_header.proofs import NO_PROOFS, Proofs, prove

# Answers are turned into columns once this many rows wait: larger batches spread the fixed cost
# of an Arrow column, and what waits is all that is held in memory.
_ROWS_PER_CHUNK = 8_192
_NO_TRANSACTIONS, _NO_LOGS, _NO_TRACES = (
    pa.RecordBatch.from_pylist([], schema) for schema in (TRANSACTIONS, LOGS, TRACES)
)

_Ask = Callable[[Node, Sequence[int]], Answers]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of consecutive blocks; of a table that was not asked for there are none."""

    blocks: pa.RecordBatch
    transactions: pa.RecordBatch
    logs: pa.RecordBatch
    traces: pa.RecordBatch


class RangeFetcher:
    """Reads ranges from one node, with `in_flight` batches under way at a time, and asks for no
    more than `tables` need.

    Answers that cannot be true, or do not prove what `proofs` ask for, are asked for once more of
    `majority`: what most nodes of the pool say.

    Every method raises RpcUnreachable or MalformedBlock; InvalidConfig where traces are asked of a
    node that has none.
    """

    def __init__(
        self,
        client: RpcClient,
        chain_id: int,
        *,
        batch_blocks: int = 50,
        in_flight: int = 2,
        tables: Collection[str] = DEFAULT_TABLES,
        proofs: Proofs = NO_PROOFS,
        majority: RpcClient | None = None,
    ) -> None:
        self._node = Node(client, proofs)
        self._majority = Node(majority, proofs) if majority is not None else None
        self._proofs = proofs
        self._with_receipts = not {"transactions", "logs"}.isdisjoint(tables)
        self._with_traces = "traces" in tables
        self._chain_id = chain_id
        self._batch_blocks = batch_blocks
        self._in_flight = in_flight

    def chunks(self, blocks: BlockRange, *, by_hash: bool = False) -> Iterator[Chunk]:
        """The range's rows in order of block. `by_hash`: receipts are asked for by the hash of
        their block, a round trip more; near the head, where a number may change its block."""
        with closing(self._chunks(blocks, self._question(by_hash))) as made:
            while True:
                # Not while the caller has a chunk: it may never come back for the next one.
                with _no_gc:
                    chunk = next(made, None)
                if chunk is None:
                    return
                yield chunk
                del chunk

    def _chunks(self, blocks: BlockRange, ask: _Ask) -> Generator[Chunk, None, None]:
        parent: str | None = None
        waiting, rows = Answers(), 0
        for answers in self._prefetched(blocks, ask):
            parent = check_links(answers.blocks, parent)
            waiting += answers
            rows += answers.rows
            if rows >= _ROWS_PER_CHUNK:
                chunk = self._to_chunk(waiting)
                # Before the yield: what was turned into columns is not held while they are
                # written, nor they while the next ones are made.
                waiting, rows, answers = Answers(), 0, Answers()
                yield chunk
                del chunk
        if waiting.blocks:
            yield self._to_chunk(waiting)

    def block_by_hash(self, block_hash: bytes) -> Chunk:
        """The rows of one block, in one round trip. RpcUnreachable, with the fact `block_hash`,
        when the node does not have it: not yet, or no longer."""
        name = "0x" + block_hash.hex()
        try:
            return self._to_chunk(self._true(lambda node: self._by_hash(node, name)))
        except AnswerTooLarge as error:
            raise self._too_large(name, error) from None

    def headers(self, numbers: Sequence[int]) -> list[Header | None]:
        """Of each number, in order; None where the node has no block. Without transactions, so
        that many are cheap. They are not checked to be of one fork."""
        found: list[Header | None] = []
        for i in range(0, len(numbers), self._batch_blocks):
            found += self._headers(numbers[i : i + self._batch_blocks])
        return found

    def _headers(self, numbers: Sequence[int]) -> list[Header | None]:
        try:
            return self._node.headers(numbers)
        except AnswerTooLarge as error:
            if len(numbers) == 1:
                raise self._too_large(str(numbers[0]), error) from None
        middle = len(numbers) // 2
        return self._headers(numbers[:middle]) + self._headers(numbers[middle:])

    def _question(self, by_hash: bool) -> _Ask:
        if not self._with_receipts:
            return Node.without_receipts
        return Node.by_number_then_hash if by_hash else Node.by_number

    def _prefetched(self, blocks: BlockRange, ask: _Ask) -> Iterator[Answers]:
        """While one answer is turned into columns the next ones are already under way."""
        pool = ThreadPoolExecutor(self._in_flight, thread_name_prefix="evm-fetch")
        under_way: deque[Future[Answers]] = deque()
        pace = Pace(self._batch_blocks)
        try:
            for piece in pace.pieces(blocks):
                under_way.append(pool.submit(self._fetch, piece, ask))
                if len(under_way) > self._in_flight:
                    yield pace.seen(under_way.popleft().result())
            while under_way:
                yield under_way.popleft().result()
        finally:
            # Not waited for: a hanging node must not keep a cancelled task.
            pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, blocks: BlockRange, ask: _Ask) -> Answers:
        numbers = range(blocks.start, blocks.end + 1)
        try:
            return self._true(lambda node: self._completed(node, numbers, ask(node, numbers)))
        except AnswerTooLarge as error:
            if len(blocks) == 1:
                raise self._too_large(str(blocks.start), error) from None
        middle = blocks.start + len(blocks) // 2
        answers = self._fetch(BlockRange(blocks.start, middle - 1), ask)
        answers += self._fetch(BlockRange(middle, blocks.end), ask)
        return answers

    def _true(self, read: Callable[[Node], Answers]) -> Answers:
        try:
            return read(self._node)
        except (MalformedBlock, NodeContradictsItself, ProvidersDisagree):
            if self._majority is None:
                raise
        return read(self._majority)

    def _by_hash(self, node: Node, block_hash: str) -> Answers:
        answers = node.by_hash(block_hash)
        return self._completed(node, [_number(answers.blocks[0])], answers)

    def _completed(self, node: Node, numbers: Sequence[int], answers: Answers) -> Answers:
        """With traces where they are wanted, and checked."""
        for number, block in zip(numbers, answers.blocks, strict=True):
            check_block(number, block)
        if self._with_receipts:
            for block, receipts in zip(answers.blocks, answers.receipts, strict=True):
                check_receipts(block, receipts)
        self._prove(answers)
        if self._with_traces:
            answers.traces = node.traces(numbers)
            for block, traces in zip(answers.blocks, answers.traces, strict=True):
                check_traces(block, traces)
        return answers

    def _prove(self, answers: Answers) -> None:
        if not self._proofs:
            return
        for i, block in enumerate(answers.blocks):
            try:
                prove(self._proofs, block, answers.receipts[i] if self._with_receipts else None)
            except ValueError as error:
                number = quantity(block.number, "number")
                raise MalformedBlock(f"block {number} holds a bad value: {error}") from None

    def _too_large(self, block: str, error: AnswerTooLarge) -> RpcUnreachable:
        return RpcUnreachable(f"{self._node.endpoint} cannot answer for block {block}: {error}")

    def _to_chunk(self, answers: Answers) -> Chunk:
        try:
            blocks = block_columns(answers.blocks, self._chain_id)
            transactions, logs = self._receipt_rows(blocks, answers)
            traces = trace_columns(blocks, answers.traces) if self._with_traces else _NO_TRACES
        except ValueError as error:
            raise MalformedBlock(str(error)) from None
        return Chunk(blocks, transactions, logs, traces)

    def _receipt_rows(
        self, blocks: pa.RecordBatch, answers: Answers
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Transactions and logs."""
        if not self._with_receipts:
            return _NO_TRANSACTIONS, _NO_LOGS
        transactions = list(chain.from_iterable([b.transactions for b in answers.blocks]))
        receipts = list(chain.from_iterable(answers.receipts))
        rows = transaction_columns(blocks, transactions, receipts)
        return rows, log_columns(rows, receipts)


def _number(block: Block) -> int:
    try:
        return quantity(block.number, "number")
    except ValueError as error:
        raise MalformedBlock(f"the answer for a block is not a block: {error}") from None


class _NoGc:
    """Nothing here makes cycles, and a collection would walk every struct that waits. For all
    threads: the last one that leaves turns it on again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_on = True

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_on = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._was_on:
                gc.enable()


_no_gc = _NoGc()
