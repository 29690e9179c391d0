"""`parquet_compact`: a block range of tables, or of many small files, to few large sorted files.

It is woken by a range and reads the inputs that do not wake it, each to an output of its own. All
tables are read in one snapshot, and nothing is written unless the range is whole: its commit takes
the place of whatever the range held before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, model_validator

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import (
    InvalidConfig,
    MalformedBlock,
    RangeIncomplete,
    RangeNotReady,
)
from trace_platform.domain.file_ranges import named_range, seam, uncovered
from trace_platform.operators import frames, scope
from trace_platform.operators.accepts import ONE_RANGE, RANGE, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext, Writes
from trace_platform.operators.evm.schema import LATER, TABLES
from trace_platform.operators.frames import Again, Frames
from trace_platform.operators.io import parquet_output, trim_hot
from trace_platform.operators.io.chain_table import counted, is_chain_table
from trace_platform.wire.task import TaskInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Config(OperatorConfig):
    target_file_mb: int = Field(
        default=parquet_output.FILE_MB,
        ge=1,
        le=4_096,
        description="About how large a file becomes, in MB.",
    )
    sort: list[str] | None = Field(
        default=None,
        description="Columns by which rows are sorted, of which each table takes those that "
        "it has. Null: block, transaction and log.",
    )
    # Rows that an earlier task committed leave the table: never those of this one, whose commit
    # is still to come.
    delete_from_hot: bool = Field(
        default=False,
        description="Whether rows that an earlier task committed are deleted from the hot table.",
    )
    keep_blocks: int = Field(
        default=0,
        ge=0,
        le=2**62,
        description="Newest blocks that stay in the hot table all the same.",
    )
    rpc_pool: str | None = Field(
        default=None,
        min_length=1,
        description="Name of the RPC pool from which blocks are read again whose files are wrong, "
        "and those from before the table that no file has; goes with `chain_id`.",
    )
    chain_id: int | None = Field(
        default=None,
        ge=1,
        le=2**63 - 1,
        description="Id of the chain of that pool; goes with `rpc_pool`.",
    )

    @model_validator(mode="after")
    def _both(self) -> Config:
        if (self.rpc_pool is None) != (self.chain_id is None):
            raise ValueError("rpc_pool and chain_id come together")
        return self


class ParquetCompact:
    name: ClassVar[str] = "parquet_compact"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None
    accepts: ClassVar[Accepts] = ONE_RANGE
    emits: ClassVar[Updates | None] = RANGE
    keeps_columns: ClassVar[bool] = True
    writes: ClassVar[Writes | None] = "files"

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        blocks, reads = scope.block_range(task), _reads(task)
        if config.delete_from_hot:
            trim_hot.trim_committed(task, reads, blocks, config.keep_blocks)
        with frames.opened(task) as data:
            for each in reads:
                _check_there(data, each, blocks)
            unread = _is_wrong(task) or _was_never_followed(config, data, reads, blocks)
            again = _from_the_chain(task) if unread else None
            tables = [data.read(each.input_index, again=again) for each in reads]
            hot = any(each.table for each in reads)
            if again is None:
                _check_whole(data, tables, blocks, hot)
            commits = [
                data.write(
                    output,
                    table,
                    blocks,
                    sort_by=_sort(config, table),
                    file_mb=config.target_file_mb,
                    made_of=[each.input_index],
                )
                for output, (each, table) in enumerate(zip(reads, tables, strict=True))
            ]
            if again is not None:
                # Whatever the chain did while each table was read by itself: what counts is what
                # was written.
                written = [data.staged(commit) for commit in commits]
                _check_whole(data, written, blocks, hot)
                _check_same_blocks(data, written)
        return Result(outputs=commits)


def _is_wrong(task: TaskContext) -> bool:
    """Whether what this job wrote was said to be invalid. Its files are no source then, and neither
    is the table, which they may have been made of, where the chain can be asked."""
    return any(given.invalidation is not None for given in task.inputs if given.trigger)


def _was_never_followed(
    config: Config, data: Frames, reads: Sequence[TaskInput], blocks: BlockRange
) -> bool:
    """Whether some of the range lies below a table, and no file has it: a table that begins in the
    midst of a chain has its history from the chain, where that can be asked."""
    if config.rpc_pool is None:
        return False
    for each in reads:
        first = data.extent(each.input_index).first_block if each.table else None
        # Of a table without rows nothing is history yet.
        if first is not None and uncovered(seam([blocks], first)[0], each.files):
            return True
    return False


def _from_the_chain(task: TaskContext) -> Again:
    config: Config = task.config

    def rows(columns: Sequence[str], blocks: BlockRange) -> DataFrame | None:
        from trace_platform.operators.evm.source import read_chain

        table = next((name for name in TABLES if _has_columns(name, columns)), None)
        if config.rpc_pool is None or config.chain_id is None or table is None:
            return None
        rpc = task.rpc(config.rpc_pool)
        found = read_chain(task.spark(), rpc, table, config.chain_id, blocks)
        return found.select(*columns)

    return rows


def _has_columns(table: str, columns: Sequence[str]) -> bool:
    """Whether a chain's table has just these, or had them before later ones came."""
    names, n = TABLES[table].names, len(columns)
    return list(columns) == names[:n] and n >= len(names) - len(LATER[table])


def _reads(task: TaskContext) -> list[TaskInput]:
    reads = sorted((i for i in task.inputs if not i.trigger), key=lambda i: i.input_index)
    if not reads:
        raise InvalidConfig(
            "there is nothing to compact",
            hint="add the datasets to the job's inputs, with `trigger: false`",
        )
    if len(reads) != len(task.outputs):
        raise InvalidConfig(
            f"{len(reads)} inputs are read and {len(task.outputs)} outputs declared",
            hint="declare an output for each input that has `trigger: false`, in their order",
        )
    return reads


def _sort(config: Config, table: DataFrame) -> list[str] | None:
    if config.sort is None:
        return None
    return [column for column in config.sort if column in table.columns]


def _check_there(data: Frames, given: TaskInput, blocks: BlockRange) -> None:
    """Before anything is read: an input that is not there yet may be a little later."""
    if given.table:
        last = data.extent(given.input_index).last_block
        gap = None if last is None or last >= blocks.end else BlockRange(last + 1, blocks.end)
    elif all(named_range(uri) for uri in given.files):
        gap = uncovered([blocks], given.files)
    else:
        gap = None  # files of others, whose names say nothing
    if gap is not None:
        raise RangeNotReady(
            f"input {given.input_index} does not have blocks {gap.key} of {blocks.key} yet",
            hint="another attempt compacts it once they are there",
        )


def _check_whole(data: Frames, tables: Sequence[DataFrame], blocks: BlockRange, hot: bool) -> None:
    """By the first table with a row per block: each is there, and is its parent's child."""
    chain = next((table for table in tables if is_chain_table(table.columns)), None)
    if chain is None and hot:
        raise InvalidConfig(
            "none of the inputs tells whether the range is whole",
            hint="read a table with block_number, block_hash and parent_hash, such as blocks",
        )
    if chain is None:
        return
    with data.actions():
        found = counted(chain)
    if not found.are(blocks):
        raise RangeIncomplete(
            f"blocks {blocks.key} are not whole: {found.rows} rows of {found.first} to"
            f" {found.last}, {found.breaks} of them no child of the one before",
            hint="`integrity_check` finds and repairs what is missing",
        )


def _check_same_blocks(data: Frames, tables: Sequence[DataFrame]) -> None:
    """A number has the same hash in all of the tables."""
    from pyspark.sql import functions as f

    named = {"block_number", "block_hash"}
    hashes = [table.select(*sorted(named)) for table in tables if named <= set(table.columns)]
    if not hashes:
        return
    seen = reduce(lambda one, other: one.union(other), hashes).groupBy("block_number")
    several = seen.agg(f.count_distinct("block_hash").alias("hashes")).filter("hashes > 1")
    with data.actions():
        block = several.agg(f.min("block_number")).collect()[0][0]
    if block is not None:
        raise MalformedBlock(
            f"block {block} is not the same one in all tables",
            hint="the chain moved while it was read",
        )
