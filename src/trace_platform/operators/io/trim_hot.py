"""Rows that were committed as files leave their hot tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from trace_platform.data.hot_tables import Extent, trim
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import CommitOvertaken
from trace_platform.domain.file_ranges import held_by, named_range, touches
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.io.chain_table import is_chain_table
from trace_platform.operators.io.hot_input import open_snapshot
from trace_platform.operators.io.parquet_input import Footer, footers
from trace_platform.wire.task import TaskInput

# At a time; what is left goes with the next task.
_MOST_BLOCKS = 100_000


def trim_committed(
    task: TaskContext, reads: Sequence[TaskInput], blocks: BlockRange, keep_blocks: int
) -> int:
    """Take from the tables the rows below `blocks` that every one of them has in its committed
    files, without a gap from the table's first block on. How many rows.

    Their hashes are compared: where files and table differ a reorg is on its way, and nothing is
    taken.
    """
    tables = [given for given in reads if given.table]
    extents = _extents(task, tables)
    gone = _committed(tables, extents, blocks.start - 1, keep_blocks)
    if gone is None:
        return 0
    hashes = _hashes(tables, gone, task.store)
    if hashes is None:
        task.log.warning("nothing_trimmed", reason="no table tells the hashes of its blocks")
        return 0
    task.check()
    try:
        rows = trim(task.data(), [each.dataset_version for each in tables], gone.end, hashes)
    except CommitOvertaken as error:
        task.log.warning("nothing_trimmed", reason=error.message)
        return 0
    task.log.info("trimmed", up_to=gone.end, rows=rows)
    return rows


def _extents(task: TaskContext, tables: Sequence[TaskInput]) -> list[Extent]:
    versions = [given.dataset_version for given in tables]
    if not versions:
        return []
    with open_snapshot(task, versions) as found:
        return [found.extent(version) for version in versions]


def _committed(
    tables: Sequence[TaskInput], extents: Sequence[Extent], below: int, keep_blocks: int
) -> BlockRange | None:
    """The blocks that all of the tables have, and have committed. None: there are none."""
    firsts = [e.first_block for e in extents if e.first_block is not None]
    lasts = [e.last_block for e in extents if e.last_block is not None]
    if not firsts or len(firsts) < len(extents) or len(lasts) < len(extents):
        return None
    first = min(firsts)
    ends = [_end_of_cold(given.files, first) for given in tables]
    end = min([*ends, below, min(lasts) - keep_blocks, first + _MOST_BLOCKS - 1])
    return BlockRange(first, end) if end >= first else None


def _end_of_cold(files: Sequence[str], first: int) -> int:
    """The last block up to which files hold every one from `first` on."""
    return next((held.end for held in held_by(files) if held.start <= first <= held.end), first - 1)


def _hashes(
    tables: Sequence[TaskInput], gone: BlockRange, store: ObjectStore
) -> list[tuple[int, bytes]] | None:
    """As the files have them; None when no table has one row per block."""
    for given in tables:
        origin = f"input {given.input_index}"
        needed = [uri for uri in given.files if touches(named_range(uri) or gone, [gone])]
        found = footers(needed, store, origin)
        if found and all(is_chain_table(footer.schema.names) for footer in found):
            return [pair for footer in found for pair in _pairs(footer, gone, store)]
    return None


def _pairs(footer: Footer, gone: BlockRange, store: ObjectStore) -> list[tuple[int, bytes]]:
    filesystem, path = store.filesystem(footer.uri)
    within = [("block_number", ">=", gone.start), ("block_number", "<=", gone.end)]
    table: pa.Table = pq.read_table(
        path, columns=["block_number", "block_hash"], filters=within, filesystem=filesystem
    )
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
