"""A table with one row per block, each with its parent's hash: it tells if a range is whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_platform.domain.block_range import BlockRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LINKED = {"block_number", "block_hash", "parent_hash"}
# Columns of tables that have many rows per block, or none.
_WITHIN_BLOCKS = {"transaction_index", "log_index"}


@dataclass(frozen=True, slots=True)
class Counted:
    rows: int
    first: int | None
    last: int | None
    # Rows that are no child of the row before.
    breaks: int

    def are(self, blocks: BlockRange) -> bool:
        """Whether these are all the blocks of the range, each once."""
        whole = (len(blocks), blocks.start, blocks.end, 0)
        return (self.rows, self.first, self.last, self.breaks) == whole


def is_chain_table(columns: Iterable[str]) -> bool:
    named = set(columns)
    return named >= _LINKED and not _WITHIN_BLOCKS & named


def counted(chain: DataFrame) -> Counted:
    """Runs a job over three of its columns."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    # In one place anyway, so without a shuffle on the way there.
    links = chain.select("block_number", "block_hash", "parent_hash").coalesce(1)
    order = Window.orderBy("block_number")
    follows = (f.col("block_number") == f.lag("block_number").over(order) + 1) & (
        f.col("parent_hash") == f.lag("block_hash").over(order)
    )
    is_sound = (f.row_number().over(order) == 1) | f.coalesce(follows, f.lit(False))
    found = links.select("block_number", is_sound.alias("is_sound")).agg(
        f.count("*"), f.min("block_number"), f.max("block_number"), f.count_if("is_sound")
    )
    rows, first, last, sound = found.collect()[0]
    return Counted(rows, first, last, rows - sound)
