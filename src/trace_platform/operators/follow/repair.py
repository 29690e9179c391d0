"""Another chain in place of the written one: read whole, then written in one transaction."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from trace_platform.data.hot_tables import Alert, HotTable, HotWriter
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import WrongChain
from trace_platform.operators.contract import OperatorLog
from trace_platform.operators.follow.chain import Chain
from trace_platform.operators.follow.fork import ChainMoved, Fork
from trace_platform.operators.follow.spool import Spool
from trace_platform.operators.follow.window import Window


@dataclass(frozen=True, slots=True)
class Reorg:
    """A confirmed fork, and what it does to the written chain."""

    fork: Fork
    last_block: int  # of the old chain
    is_deep: bool  # deeper than finality
    is_whole: bool  # False: blocks before it may be of the old chain, too

    @property
    def depth(self) -> int:
        return self.last_block - self.fork.start + 1

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "depth": self.depth,
            "fork_block": self.fork.parent,
            "start": self.fork.start,
            "old_hash": "0x" + self.fork.old_hash.hex(),
            "new_hash": "0x" + self.fork.new_hash.hex(),
        }

    @property
    def reason(self) -> str:
        return f"reorg of depth {self.depth}: block {self.fork.start} is another one"

    def alert(self, blocks: HotTable) -> Alert | None:
        """For people, written with the rows; None when it is one of those that just happen."""
        if self.is_whole and not self.is_deep:
            return None
        known = "" if self.is_whole else _OLDER.format(self.fork.start)
        return Alert(
            severity="critical",
            code="deep_reorg",
            message=f"a reorg of depth {self.depth} replaced final blocks{known}",
            facts=self.facts | {"deeper_than_known": not self.is_whole},
            dedupe_key=f"deep_reorg:{blocks.dataset_version}:{self.fork.start}:"
            + self.fork.new_hash.hex(),
            dataset_uuid=blocks.dataset_uuid,
        )


_OLDER = "; it goes deeper than the known hashes: run integrity_check on blocks before {}"


def refuse_another_genesis(fork: Fork) -> None:
    """Raise WrongChain: chains with no block in common are not one chain that moved."""
    if fork.start == 0:
        raise WrongChain(
            "the node's genesis block is not the one that is written",
            hint="point the rpc_pool at the chain that was followed, or deploy the job with new"
            " outputs (bootstrap: {reset_outputs: true})",
            written="0x" + fork.old_hash.hex(),
            served="0x" + fork.new_hash.hex(),
        )


def read_whole(chain: Chain, window: Window, fork: Fork, end: int, spool: Spool) -> None:
    """The new chain from the fork to `end`. Raises ChainMoved unless all of it is of the fork
    that was confirmed, and still the node's when all was read."""
    with closing(chain.chunks(BlockRange(fork.start, end), by_hash=True)) as chunks:
        for chunk in chunks:
            spool.add(chunk)
    if spool.first_hash != fork.new_hash:
        raise ChainMoved(f"block {fork.start} is not the one that was confirmed")
    if fork.parent is not None and spool.first_parent != window.get(fork.parent):
        raise ChainMoved(f"block {fork.start} is not a child of block {fork.parent}")
    if chain.hashes([end]) != [spool.hashes[-1][1]]:
        raise ChainMoved(f"block {end} changed while it was read")


def write_whole(
    writer: HotWriter, versions: dict[str, UUID], reorg: Reorg, spool: Spool, log: OperatorLog
) -> None:
    writer.rewrite(
        reorg.fork.start,
        spool.hashes[-1][0],
        {version: spool.batches(table) for table, version in versions.items()},
        spool.hashes,
        alert=reorg.alert(writer.tables[versions["blocks"]]),
        reason=reorg.reason,
    )
    say = log.error if reorg.is_deep or not reorg.is_whole else log.warning
    say("reorg", **reorg.facts, deep=reorg.is_deep, deeper_than_known=not reorg.is_whole)
