"""The chain as the nodes of a pool tell it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import MalformedBlock, RpcUnreachable
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.evm.fetch import Chunk, RangeFetcher
from trace_platform.operators.evm.node import Header
from trace_platform.operators.evm.rpc import AnswerTooLarge, RpcClient
from trace_platform.operators.evm_header.proofs import Proofs
from trace_platform.operators.follow.background_work import BackgroundWork

T = TypeVar("T")
# More than a heartbeat can say.
_HIGHEST = 2**53
# It asks again by itself, ever more slowly: sooner, perhaps, than one provider wants to be asked.
_PATIENCE_S = 5.0


class Chain:
    """Every method raises RpcUnreachable or MalformedBlock, and what Alongside raises."""

    def __init__(
        self,
        endpoint: RpcEndpoint,
        chain_id: int,
        background: BackgroundWork,
        *,
        batch_blocks: int,
        in_flight: int,
        timeout_s: float,
        proofs: Proofs,
    ) -> None:
        self._chain_id = chain_id
        self._background = background
        self._client, self._agreeing = (
            RpcClient(asked, timeout_s=timeout_s, patience_s=_PATIENCE_S)
            for asked in (endpoint, endpoint.agreeing())
        )
        self._fetcher = RangeFetcher(
            self._client,
            chain_id,
            batch_blocks=batch_blocks,
            in_flight=in_flight,
            proofs=proofs,
            majority=self._agreeing if endpoint.agreeing() != endpoint else None,
        )
        self._majority = RangeFetcher(self._agreeing, chain_id, batch_blocks=batch_blocks)

    def close(self) -> None:
        self._client.close()
        self._agreeing.close()

    def check_identity(self) -> None:
        """Raise WrongChain when the node serves another one."""
        self._ask(lambda: self._client.check_chain(self._chain_id))

    def head(self) -> Header:
        return self._ask(lambda: _header(self._client, "latest"))

    def finalized(self) -> int | None:
        """The newest block that is final; None when the node does not say."""
        try:
            return self._ask(lambda: _header(self._client, "finalized")).number
        except (RpcUnreachable, MalformedBlock):
            return None

    def hashes(self, numbers: Sequence[int]) -> list[bytes | None]:
        return _hashes(self._ask(lambda: self._fetcher.headers(numbers)))

    def agreed_hashes(self, numbers: Sequence[int]) -> list[bytes | None]:
        """As most of the pool's providers have them."""
        return _hashes(self._ask(lambda: self._majority.headers(numbers)))

    def block(self, header: Header) -> Chunk:
        chunk = self._ask(lambda: self._fetcher.block_by_hash(header.hash))
        # By its hash it may come with any number, and all rows from that number on would go.
        found = chunk.blocks["block_number"][0].as_py()
        if found != header.number:
            raise MalformedBlock(f"block {header.number} says that it is block {found}")
        return chunk

    def chunks(self, blocks: BlockRange, *, by_hash: bool) -> Generator[Chunk, None, None]:
        return self._background.each(lambda: self._fetcher.chunks(blocks, by_hash=by_hash))

    def _ask(self, question: Callable[[], T]) -> T:
        try:
            return self._background.call(question)
        except AnswerTooLarge as error:
            raise RpcUnreachable(
                f"{self._client.endpoint} cannot answer: {error}", hint="lower batch_blocks"
            ) from None


def _header(client: RpcClient, tag: str) -> Header:
    found: Any = client.call("eth_getBlockByNumber", tag, False)
    if found is None:
        raise RpcUnreachable(f"{client.endpoint} has no {tag} block (yet)")
    try:
        header = Header.read(found["number"], found["hash"], found["parentHash"])
        if header.number > _HIGHEST:
            raise ValueError(f"no block has the number {header.number}")
    except (TypeError, KeyError):
        raise MalformedBlock(f"the answer for the {tag} block is not a block") from None
    except ValueError as error:
        raise MalformedBlock(f"the answer for the {tag} block is not a block: {error}") from None
    return header


def _hashes(headers: Sequence[Header | None]) -> list[bytes | None]:
    return [None if header is None else header.hash for header in headers]
