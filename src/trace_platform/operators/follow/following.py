"""The follower's turn, over and over: look at the head, and make what is written like the node's
chain."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Literal
from uuid import UUID

from trace_platform.data.hot_tables import HotWriter
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import MalformedBlock, RpcUnreachable
from trace_platform.operators.contract import OperatorLog
from trace_platform.operators.evm.fetch import Chunk
from trace_platform.operators.evm.node import Header
from trace_platform.operators.follow.announce import Announcer
from trace_platform.operators.follow.background_work import BackgroundWork
from trace_platform.operators.follow.chain import Chain
from trace_platform.operators.follow.confirm import Confirmations
from trace_platform.operators.follow.finality import Finality
from trace_platform.operators.follow.fork import ChainMoved, Fork, find_fork
from trace_platform.operators.follow.repair import (
    Reorg,
    read_whole,
    refuse_another_genesis,
    write_whole,
)
from trace_platform.operators.follow.spool import Spool, hashes_of
from trace_platform.operators.follow.trouble import Trouble
from trace_platform.operators.follow.window import Window

# So close to the head a number may change its block: receipts are asked for by hash.
_NEAR_BLOCKS = 256
_SAY_EVERY_S = 5.0
# So long a provider may lag behind what another one gave. A node that was restored lags for longer.
_MAY_LAG_S = 15.0


class Following:
    """One attempt, from what is written to the head and on. Every block that is written is a child
    of the one before it, so that there is never a hole and never a mix of two chains."""

    def __init__(
        self,
        chain: Chain,
        writer: HotWriter,
        versions: dict[str, UUID],  # by table
        announcer: Announcer,
        background: BackgroundWork,
        confirmations: Confirmations,
        finality: Finality,
        trouble: Trouble,
        log: OperatorLog,
        *,
        start_block: int | Literal["latest"],
        hash_window: int,
        repair_ahead: int,
        progress: Callable[[int, int], None] = lambda done, total: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._chain = chain
        self._writer = writer
        self._versions = versions
        self._announcer = announcer
        self._background = background
        self._confirmations = confirmations
        self._finality = finality
        self._log = log
        self._start_block = start_block
        self._hash_window = hash_window
        self._repair_ahead = repair_ahead
        self._progress = progress
        self._now = now
        self._trouble = trouble
        self._window = Window(hash_window)
        self._is_identified = False
        self._reorgs = 0
        self._say_at = 0.0
        self._lags_since: float | None = None

    def begin(self) -> None:
        """Take over what the attempt before this one left."""
        extent = self._writer.take_over()
        if extent.last_block is not None:
            self._window = self._known(extent.last_block)
        self._announcer.flush(self.last_block)
        self._log.info("taken_over", first=extent.first_block, last=extent.last_block)

    @property
    def last_block(self) -> int | None:
        return self._window.last

    def turn(self) -> None:
        """One look at the head and all that follows from it. A node that fails is waited for.
        Raises Drained once the source is to end."""
        self._background.look()
        try:
            wrote = self._look()
            self._trouble.is_over(self.last_block)
            if wrote:
                self._confirmations.went_on(self.last_block)
        except (RpcUnreachable, MalformedBlock, ChainMoved) as error:
            self._trouble.happened(error, self.last_block)
            wrote = False
        self._announcer.send_when_due(self.last_block)
        if not wrote:
            self._background.nap(self._trouble.pause_s)

    def finish(self) -> None:
        """Send what waits for more."""
        self._announcer.flush(self.last_block)

    def _known(self, last: int) -> Window:
        oldest = max(last - self._hash_window + 1, 0)
        return Window(self._hash_window, self._writer.hashes(oldest, last))

    def _look(self) -> bool:
        """Whether something was written."""
        if not self._is_identified:
            self._chain.check_identity()
            self._is_identified = True
        head = self._chain.head()
        self._say(head)
        last, last_hash = self._window.last, self._window.last_hash
        if last is None or head.number >= last:
            self._lags_since = None
        if last is None:
            return self._start(head)
        if head.number == last + 1 and head.parent_hash == last_hash:
            return self._append(self._chain.block(head))
        if head.number > last + 1:
            return self._catch_up(last + 1, head)
        if head.number <= last and self._window.get(head.number) in (head.hash, None):
            # Nothing new, or a provider that lags: the blocks that it has are ours.
            self._finality.look(last)
            if head.number < last:
                self._refuse_lag(head.number, last)
            return False
        return self._repair(head)

    def _refuse_lag(self, head: int, last: int) -> None:
        """What is written is right, but nothing comes either: people should know."""
        if self._lags_since is None:
            self._lags_since = self._now()
        if self._now() - self._lags_since >= _MAY_LAG_S:
            raise RpcUnreachable(
                f"the node is at block {head}, behind block {last}, which is written",
                hint="it may have been restored, or lag behind others: it has to catch up",
            )

    def _start(self, head: Header) -> bool:
        start = self._first_block(head)
        return start <= head.number and self._catch_up(start, head)

    def _first_block(self, head: Header) -> int:
        return head.number if self._start_block == "latest" else self._start_block

    def _catch_up(self, start: int, head: Header) -> bool:
        """In chunks, each written as it comes: memory is bounded, and nothing is read twice."""
        is_near = head.number - start < _NEAR_BLOCKS
        end = head.number if is_near else head.number - _NEAR_BLOCKS
        # Closed at once, and not when the last reference goes: fetching ends with it.
        with closing(self._chain.chunks(BlockRange(start, end), by_hash=is_near)) as chunks:
            for chunk in chunks:
                if not self._append(chunk):
                    break
                self._say(head)
                self._background.look()
            else:
                return True
        return self._repair(head)

    def _append(self, chunk: Chunk) -> bool:
        """False, and nothing is written, when it does not follow from what is."""
        parent = self._window.last_hash
        if parent is not None and chunk.blocks["parent_hash"][0].as_py() != parent:
            return False
        hashes = hashes_of(chunk)
        blocks = BlockRange(hashes[0][0], hashes[-1][0])
        rows = {version: [getattr(chunk, table)] for table, version in self._versions.items()}
        self._writer.rewrite(blocks.start, blocks.end, rows, hashes, reason="the chain goes on")
        self._window.replace(hashes)
        self._announcer.written(blocks)
        self._finality.look(blocks.end)
        return True

    def _repair(self, head: Header) -> bool:
        """What was seen of the head does not follow from what is written."""
        last = self._window.last
        assert last is not None
        self._chain.check_identity()
        found = self._confirmed(min(last, head.number))
        if found is None:
            return False
        fork, window = found
        # Asked again: a node in the middle of a reorg has a new block at a time.
        newest = self._chain.head().number
        if newest < fork.start:
            raise ChainMoved(f"block {fork.start} is gone")
        self._replace(fork, window, last, newest)
        return True

    def _confirmed(self, top: int) -> tuple[Fork, Window] | None:
        """A fork that is one, however deep, and the hashes that it was found among."""
        window = self._window
        while (fork := self._fork(window, top)) is not None:
            older = None if fork.parent is not None else self._older(window)
            if older is None:
                return fork, window
            window, top = older, fork.start
        return None

    def _fork(self, window: Window, top: int) -> Fork | None:
        fork = find_fork(window, top, self._chain.hashes)
        if fork is None:
            return None
        refuse_another_genesis(fork)
        return fork if self._confirmations.has(fork, window) else None

    def _older(self, window: Window) -> Window | None:
        """The hashes up to the window's oldest block: those of blocks that have rows are kept
        however old they are. None: there is none before it."""
        assert window.oldest is not None
        older = self._known(window.oldest)
        return None if older.oldest == window.oldest else older

    def _replace(self, fork: Fork, window: Window, last: int, head: int) -> None:
        with Spool() as spool:
            read_whole(self._chain, window, fork, min(head, last + self._repair_ahead), spool)
            reorg = Reorg(
                fork,
                last,
                is_deep=self._finality.is_deeper(fork.start, last, head),
                is_whole=fork.parent is not None or fork.start == self._writer.origin(),
            )
            write_whole(self._writer, self._versions, reorg, spool, self._log)
            self._reorgs += 1
            self._window.replace(spool.hashes)
        self._announcer.flush(self.last_block)

    def _say(self, head: Header) -> None:
        # Before the first block it is as far behind as it has to go.
        at = self._first_block(head) if self._window.last is None else self._window.last
        self._progress(min(at, head.number), head.number)
        if self._now() < self._say_at:
            return
        self._say_at = self._now() + _SAY_EVERY_S
        last = self._window.last
        self._log.info(
            "following",
            head=head.number,
            last=last,
            lag=None if last is None else max(head.number - last, 0),
            reorgs=self._reorgs,
            forks_not_confirmed=self._confirmations.refusals,
        )
