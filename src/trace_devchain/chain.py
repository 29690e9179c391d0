"""The development chain: a head, the hashes up to it, and blocks rendered when first asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from trace_devchain import render, render_traces
from trace_devchain.content import Content, Generator, Options, locate
from trace_devchain.fragment_cache import FragmentCache
from trace_devchain.header import Header
from trace_devchain.render import Fragment, Sealed
from trace_devchain.seal import gas_limit, seal
from trace_platform.domain.errors import InvalidConfig

DEFAULT_CACHE_BYTES = 256 << 20
MAX_TXS = 10_000
SAFE_DEPTH = 32
FINALIZED_DEPTH = 64
# A batch asks for a block and its receipts: the content is made once for both.
_RECENT_BLOCKS = 64


class DevChain:
    """Equal options and equal calls of `mine` and `reorg` give equal bytes, in any process.

    Only block hashes are kept for ever; a block's content is made again when it is needed.
    Block numbers passed in must be between 0 and `head`.
    """

    def __init__(
        self,
        *,
        blocks: int = 2000,
        txs: int = 10,
        exact_txs: bool = False,
        seed: int = 0,
        chain_id: int = 31337,
        pools: bool = False,
        items: bool = False,
        cache_bytes: int | None = DEFAULT_CACHE_BYTES,
    ) -> None:
        """`blocks` is the height of the head at first; `cache_bytes=None` drops nothing."""
        _check_options(blocks, txs, chain_id)
        self.options = Options(
            seed=seed,
            chain_id=chain_id,
            txs=txs,
            exact_txs=exact_txs,
            pools=pools,
            items=items,
        )
        self._generator = Generator(self.options)
        self._gas_limit = gas_limit(self.options.max_txs)
        self._fragments = FragmentCache(cache_bytes)
        self._recent: dict[bytes, Sealed] = {}
        self._head = blocks
        # Hashes of a prefix of the chain: they are computed on the way to the block asked for.
        self._hashes: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        # Fork points, ascending: from height _fork_heights[i] on, blocks are of _fork_branches[i].
        self._fork_heights = [0]
        self._fork_branches = [0]
        self._last_branch = 0

    @property
    def chain_id(self) -> int:
        return self.options.chain_id

    @property
    def head(self) -> int:
        return self._head

    @property
    def safe(self) -> int:
        return max(self._head - SAFE_DEPTH, 0)

    @property
    def finalized(self) -> int:
        return max(self._head - FINALIZED_DEPTH, 0)

    @property
    def cached_bytes(self) -> int:
        return self._fragments.bytes

    @property
    def tokens(self) -> list[str]:
        """The addresses of the ERC-20 contracts, the busiest first."""
        return [token.hex for token in self._generator.accounts.tokens]

    @property
    def pools(self) -> list[str]:
        """The addresses of the pools, each of a token and the next one."""
        return [pool.hex for pool in self._generator.accounts.pools]

    def mine(self, count: int = 1) -> int:
        """Add `count` blocks on the current branch; the new head."""
        self._head += count
        return self._head

    def reorg(self, depth: int) -> int:
        """Replace the last `depth` blocks and add one, so that the new branch wins; the new head.

        The replaced blocks are gone, also by hash. Genesis cannot be replaced.
        """
        if not 1 <= depth <= self._head:
            raise InvalidConfig(f"reorg depth must be between 1 and {self._head}, not {depth}")
        fork = self._head - depth + 1
        self._forget_from(fork)
        self._last_branch += 1
        self._fork_heights.append(fork)
        self._fork_branches.append(self._last_branch)
        self._head += 1
        return self._head

    def hash_of(self, number: int) -> bytes:
        self._extend_to(number)
        return self._hashes[number]

    def number_of(self, block_hash: bytes) -> int | None:
        """None for a hash that is not on the current branch."""
        number = self._numbers.get(block_hash)
        if number is None and len(self._hashes) <= self._head:
            self._extend_to(self._head)
            number = self._numbers.get(block_hash)
        return number

    def content(self, number: int) -> Content:
        return self._sealed(number).content

    def header(self, number: int) -> Header:
        return self._sealed(number).header

    def full_block(self, number: int) -> Fragment:
        """The block with its transactions in full; `spans` are the transactions'."""
        return self._fragment(number, b"f", self._render_full)

    def hashed_block(self, number: int) -> Fragment:
        return self._fragment(number, b"h", self._render_hashed)

    def receipts(self, number: int) -> Fragment:
        """`spans` are the receipts', `logs` say where each log lies."""
        return self._fragment(number, b"r", render.receipts)

    def traces(self, number: int) -> Fragment:
        """Made when asked for, also on a chain that is built beforehand."""
        return self._fragment(number, b"t", render_traces.traces)

    def find_transaction(self, tx_hash: bytes) -> tuple[int, int] | None:
        """(block number, index) of a transaction on the current branch."""
        number, index = locate(tx_hash)
        if number > self._head:
            return None
        txs = self._sealed(number).content.txs
        found = index < len(txs) and txs[index].hash == "0x" + tx_hash.hex()
        return (number, index) if found else None

    def prebuild(self) -> Iterator[int]:
        """Render every block and keep it, whatever it takes; yields each number when done."""
        self._fragments.keep_everything()
        for number in range(self._head + 1):
            self.full_block(number)
            self.hashed_block(number)
            self.receipts(number)
            yield number

    def _render_full(self, block: Sealed) -> Fragment:
        return render.full_block(block, self._generator.accounts)

    def _render_hashed(self, block: Sealed) -> Fragment:
        return render.hashed_block(block, self._generator.accounts)

    def _fragment(self, number: int, view: bytes, make: Callable[[Sealed], Fragment]) -> Fragment:
        key = self.hash_of(number) + view
        fragment = self._fragments.get(key)
        if fragment is None:
            fragment = make(self._sealed(number))
            self._fragments.put(key, fragment)
        return fragment

    def _extend_to(self, number: int) -> None:
        while len(self._hashes) <= number:
            block = self._seal(len(self._hashes))
            self._numbers[block.hash] = len(self._hashes)
            self._hashes.append(block.hash)
            self._remember(block)

    def _sealed(self, number: int) -> Sealed:
        block_hash = self.hash_of(number)
        block = self._recent.get(block_hash)
        if block is None:
            block = self._seal(number)
            self._remember(block)
        return block

    def _seal(self, number: int) -> Sealed:
        """Needs the hash of the parent only."""
        content = self._generator.block(number, self._branch_at(number))
        parent = self._hashes[number - 1] if number else bytes(32)
        header = seal(content, parent, self._gas_limit, self._generator.accounts)
        return Sealed(content, header, header.hash(), self.options.chain_id)

    def _remember(self, block: Sealed) -> None:
        self._recent[block.hash] = block
        if len(self._recent) > _RECENT_BLOCKS:
            del self._recent[next(iter(self._recent))]

    def _branch_at(self, number: int) -> int:
        return self._fork_branches[bisect_right(self._fork_heights, number) - 1]

    def _forget_from(self, number: int) -> None:
        for block_hash in self._hashes[number:]:
            del self._numbers[block_hash]
        del self._hashes[number:]
        while self._fork_heights[-1] >= number:
            self._fork_heights.pop()
            self._fork_branches.pop()


def _check_options(blocks: int, txs: int, chain_id: int) -> None:
    for name, value, low, high in (
        ("blocks", blocks, 0, 2**32),
        ("txs", txs, 0, MAX_TXS),
        ("chain_id", chain_id, 1, 2**53),
    ):
        if not low <= value <= high:
            raise InvalidConfig(f"{name} must be between {low} and {high}, not {value}")
