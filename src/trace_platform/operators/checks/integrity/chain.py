"""The chain's own rows, and whether the node that tells them can be believed.

A header is proven by its hash, which is asked for; receipts and transactions by the header's roots.
Of traces no header tells: they have to be of the block and its transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import (
    MalformedBlock,
    NodeContradictsItself,
    ProvidersDisagree,
    RpcUnreachable,
)
from trace_platform.domain.evm_hex import quantity
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.checks.rpc_providers import providers
from trace_platform.operators.evm.fetch import RangeFetcher
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.evm_header.proofs import Proofs

TABLES = ("blocks", "transactions", "logs")
ALL_TABLES = (*TABLES, "traces")
Rows = dict[str, pa.Table]  # by table
# Spans asked for at the same time.
_AT_ONCE = 4


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
        self._endpoint = endpoint
        self._clients = [RpcClient(endpoint), RpcClient(endpoint.agreeing())]
        # One node alone is no majority: its own word is what counts.
        self._has_majority = endpoint.agreeing() != endpoint
        self._tables = ALL_TABLES if with_traces else TABLES
        self._chain_id = chain_id
        self.proofs = proofs
        self._batch_blocks = batch_blocks

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def check(self) -> None:
        """Raise WrongChain when the pool is of another one."""
        self._clients[0].check_chain(self._chain_id)

    def rows(self, spans: Sequence[BlockRange]) -> Rows:
        """Of every table, in the order of the chain, as the spans are. Raise NodeContradictsItself
        for answers that do not prove what they say."""
        with ThreadPoolExecutor(min(_AT_ONCE, len(spans))) as pool:
            majority = self._clients[1] if self._has_majority else None
            ask = self._fetcher(self._clients[0], self._tables, majority)
            parts = list(pool.map(lambda span: _fetched(ask, span), spans))
        return {
            table: pa.concat_tables([part[table] for part in parts]).combine_chunks()
            for table in ALL_TABLES
        }

    def confirm(self, blocks: BlockRange, first: Rows, *, with_traces: bool = False) -> None:
        """Raise what `contradiction` makes unless most nodes of the pool say the same, asked
        again."""
        tables = ALL_TABLES if with_traces else TABLES
        again = _fetched(self._fetcher(self._clients[1], tables), blocks)
        for table in tables:
            before = rows_of(first[table], blocks)
            if not again[table].equals(before):
                raise self.contradiction(
                    f"two answers for the {table} of blocks {blocks.key} are not the same",
                    start=blocks.start,
                    end=blocks.end,
                )

    def contradiction(self, what: str, **facts: Any) -> RpcUnreachable:
        """Of answers that cannot all be true: one node's, or those of the several of the pool."""
        is_one_node = not self._has_majority or len(providers("", self._endpoint)) < 2
        if is_one_node:
            said, hint = (
                f"the node contradicts itself: {what}",
                "the chain moves there, or the node",
            )
            return NodeContradictsItself(said, hint=f"{hint} is wrong; tried again later", **facts)
        hint = "the chain moves there, or a node of the pool is wrong; tried again later"
        return ProvidersDisagree(f"providers disagree: {what}", hint=hint, **facts)

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

    def _fetcher(
        self, client: RpcClient, tables: Collection[str], majority: RpcClient | None = None
    ) -> RangeFetcher:
        return RangeFetcher(
            client,
            self._chain_id,
            batch_blocks=self._batch_blocks,
            tables=tables,
            proofs=self.proofs,
            majority=majority,
        )


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
