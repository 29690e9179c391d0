"""The chain's own rows, and whether the node that tells them can be believed.

A header is proven by its hash, which is asked for; receipts and transactions by the header's roots.
Of traces no header tells: they have to be of the block and its transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import MalformedBlock, ProvidersDisagree, RpcUnreachable
from trace_platform.domain.evm_hex import data, quantity
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.evm.fetch import RangeFetcher
from trace_platform.operators.evm.rpc import RpcClient, RpcFault
from trace_platform.operators.evm_header.envelope import (
    NotEthereums,
    SignedTransaction,
    transactions_root,
)
from trace_platform.operators.evm_header.header import Header, header_hash
from trace_platform.operators.evm_header.receipts import receipts_roots, untold
from trace_platform.operators.evm_header.trie import EMPTY_ROOT

TABLES = ("blocks", "transactions", "logs")
ALL_TABLES = (*TABLES, "traces")
Rows = dict[str, pa.Table]  # by table
# No hash is this one: some chains have no such root.
_NO_ROOT = bytes(32)
# Spans asked for at the same time.
_AT_ONCE = 4


class _HeaderAnswer(msgspec.Struct, gc=False):
    id: int | None = None
    result: Header | None = None
    error: RpcFault | None = None


_header_batch = msgspec.json.Decoder(list[_HeaderAnswer] | _HeaderAnswer)


@dataclass(frozen=True, slots=True)
class Proofs:
    """What a node's answers have to prove of themselves."""

    header_hash: bool
    roots: bool


@dataclass(slots=True)
class Unproven:
    """What could not be proven of some blocks, since only Ethereum's rules are known."""

    what: str
    why: str
    first_block: int
    blocks: int = 0


class Chain:
    """One pool, asked once for what is compared, and again before anything is said to be wrong.

    `with_traces`: of a pool whose nodes trace.
    """

    def __init__(
        self,
        endpoint: RpcEndpoint,
        chain_id: int,
        proofs: Proofs,
        *,
        batch_blocks: int,
        with_traces: bool = False,
    ) -> None:
        self._clients = [RpcClient(endpoint), RpcClient(endpoint.agreeing())]
        self._tables = ALL_TABLES if with_traces else TABLES
        self._chain_id = chain_id
        self._proofs = proofs
        self._batch_blocks = batch_blocks
        self._unproven: dict[tuple[str, str], Unproven] = {}

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def check(self) -> None:
        """Raise WrongChain when the pool is of another one."""
        self._clients[0].check_chain(self._chain_id)

    def rows(self, spans: Sequence[BlockRange]) -> Rows:
        """Of every table, in the order of the chain, as the spans are. Raise ProvidersDisagree for
        answers that do not prove what they say."""
        with ThreadPoolExecutor(min(_AT_ONCE, len(spans))) as pool:
            ask = self._fetcher(self._clients[0], self._tables)
            parts = list(pool.map(lambda span: _fetched(ask, span), spans))
        found = {
            table: pa.concat_tables([part[table] for part in parts]).combine_chunks()
            for table in ALL_TABLES
        }
        if self._proofs.header_hash or self._proofs.roots:
            numbers = [n for span in spans for n in range(span.start, span.end + 1)]
            for i in range(0, len(numbers), self._batch_blocks):
                self._prove(numbers[i : i + self._batch_blocks], found)
        return found

    def unproven(self) -> list[Unproven]:
        """Of all rows so far."""
        return list(self._unproven.values())

    def confirm(self, blocks: BlockRange, first: Rows, *, with_traces: bool = False) -> None:
        """Raise ProvidersDisagree unless most nodes of the pool say the same, asked again."""
        tables = ALL_TABLES if with_traces else TABLES
        again = _fetched(self._fetcher(self._clients[1], tables), blocks)
        for table in tables:
            before = rows_of(first[table], blocks)
            if not again[table].equals(before):
                raise ProvidersDisagree(
                    f"two answers for the {table} of blocks {blocks.key} are not the same",
                    hint="the chain moves there, or a node of the pool is wrong; tried again later",
                    start=blocks.start,
                    end=blocks.end,
                )

    def finalized(self, depth: int) -> int:
        """The last block that is; `depth` below the head where the node does not say."""
        client = self._clients[0]
        try:
            found = client.call("eth_getBlockByNumber", "finalized", False)
        except RpcUnreachable:
            found = None  # some refuse the tag; one that is away refuses the next call, too
        number = found.get("number") if isinstance(found, dict) else None
        if number is None:
            return max(client.number("eth_blockNumber") - depth, -1)
        return _number(number)

    def _fetcher(self, client: RpcClient, tables: Collection[str]) -> RangeFetcher:
        return RangeFetcher(client, self._chain_id, batch_blocks=self._batch_blocks, tables=tables)

    def _prove(self, numbers: Sequence[int], rows: Rows) -> None:
        """No other blocks than these lie between the first and the last of them."""
        span = BlockRange(numbers[0], numbers[-1])
        headers = dict(zip(numbers, self._headers(numbers), strict=True))
        told = rows_of(rows["blocks"], span)["block_hash"].to_pylist()
        with _readable_values(span):
            for (number, header), block_hash in zip(headers.items(), told, strict=True):
                _same(number, "hash", header.hash, block_hash)
                if self._proofs.header_hash:
                    _same(number, "hash of its header", header.hash, header_hash(header))
            if self._proofs.roots:
                self._prove_roots(headers, *(rows_of(rows[t], span) for t in TABLES[1:]))

    def _prove_roots(
        self, headers: dict[int, Header], transactions: pa.Table, logs: pa.Table
    ) -> None:
        receipts, without = receipts_roots(transactions, logs), untold(transactions)
        for number, header in headers.items():
            made = without.get(number) or receipts.get(number, EMPTY_ROOT)
            self._prove_root(number, "receipts root", header.receipts_root, made)
            signed = [t for t in header.transactions if isinstance(t, SignedTransaction)]
            try:
                made = transactions_root(signed)
            except NotEthereums as error:
                made = str(error)
            self._prove_root(number, "transactions root", header.transactions_root, made)

    def _prove_root(self, number: int, what: str, said: str, made: bytes | str) -> None:
        """`made`: the root, or why it cannot be made."""
        if data(said, what) == _NO_ROOT:
            made = "the header has none"
        if isinstance(made, bytes):
            _same(number, what, said, made)
        else:
            found = self._unproven.setdefault((what, made), Unproven(what, made, number))
            found.blocks += 1

    def _headers(self, numbers: Sequence[int]) -> list[Header]:
        calls = [("eth_getBlockByNumber", (hex(n), self._proofs.roots)) for n in numbers]
        answers = self._clients[0].batch(calls, _header_batch)
        return [self._header(n, a) for n, a in zip(numbers, answers, strict=True)]

    def _header(self, number: int, answer: _HeaderAnswer) -> Header:
        if answer.error is not None:
            raise self._clients[0].refusal(answer.error, f"block {number}")
        if answer.result is None:
            raise RpcUnreachable(f"{self._clients[0].endpoint} does not have block {number} (yet)")
        return answer.result


def _fetched(fetcher: RangeFetcher, blocks: BlockRange) -> Rows:
    chunks = list(fetcher.chunks(blocks))
    return {
        table: pa.Table.from_batches([getattr(chunk, table) for chunk in chunks]).combine_chunks()
        for table in ALL_TABLES
    }


def rows_of(rows: pa.Table, blocks: BlockRange) -> pa.Table:
    """Rows are sorted by block."""
    numbers = rows["block_number"].to_numpy()
    start, end = numbers.searchsorted([blocks.start, blocks.end + 1])
    return rows.slice(start, end - start)


def _number(said: Any) -> int:
    try:
        return quantity(said, "number")
    except ValueError as error:
        raise MalformedBlock(f"the answer for a block is not a block: {error}") from None


def _same(number: int, what: str, said: str, computed: bytes) -> None:
    if data(said, what) != computed:
        raise _contradiction(number, what, said, "0x" + computed.hex())


def _contradiction(number: int, what: str, said: str, found: str) -> ProvidersDisagree:
    return ProvidersDisagree(
        f"the node contradicts itself about block {number}: its {what} is {said[:66]}, "
        f"what it says makes {found}",
        hint="ask another node; for chains that hash otherwise turn `header_hash` or `roots` off",
        block=number,
    )


@contextmanager
def _readable_values(span: BlockRange) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise MalformedBlock(f"blocks {span.key}: {error}") from None
