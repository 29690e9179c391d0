"""Buckets of time of a `window`: which of them a task makes, and the rows of those.

A task is about a bucket of blocks, and reads as many blocks around it as a bucket of time may have.
It makes the buckets of time whose first row lies in its own blocks: every bucket is made once, by a
task that sees all of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, InvalidQuery, note_of
from trace_platform.operators.io.parquet_input import BLOCK
from trace_platform.operators.transform.mode import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIME = "timestamp"
_BUCKET, _FIRST, _LAST = "bucket", "first", "last"


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    seconds: int
    # One row for each bucket of time that is this task's.
    own: DataFrame

    @classmethod
    def of(
        cls, inputs: Mapping[int, DataFrame], window: Window, blocks: BlockRange
    ) -> TimeBuckets | None:
        """Raise InvalidConfig for an input that has blocks and no time. None: no input has blocks,
        and there is nothing to cut."""
        from pyspark.sql import functions as f

        seconds, most = window.seconds, window.most_blocks
        assert seconds is not None, "buckets of time"
        assert most is not None, "buckets of time have a bound"
        spans = [
            _spans(rows, index, seconds) for index, rows in inputs.items() if BLOCK in rows.columns
        ]
        if not spans:
            return None
        together = reduce(lambda one, other: one.unionByName(other), spans)
        buckets = together.groupBy(_BUCKET).agg(
            f.min(_FIRST).alias(_FIRST), f.max(_LAST).alias(_LAST)
        )
        # Looked at in all of them: of one that is too long another task may have seen less.
        own = buckets.filter(_fits(most) & f.col(_FIRST).between(blocks.start, blocks.end))
        return cls(seconds, own.select(_BUCKET))

    def own_rows(self, rows: DataFrame, index: int) -> DataFrame:
        """Those of the task's buckets of time. What has no blocks is read as a whole."""
        if BLOCK not in rows.columns:
            return rows
        return rows.join(self.own, _bucket(rows, index, self.seconds) == self.own[_BUCKET], "semi")


def _spans(rows: DataFrame, index: int, seconds: int) -> DataFrame:
    """Of each bucket of time the first and the last block with a row of it."""
    from pyspark.sql import functions as f

    bucket = _bucket(rows, index, seconds).alias(_BUCKET)
    first, last = f.min(BLOCK).alias(_FIRST), f.max(BLOCK).alias(_LAST)
    return rows.groupBy(bucket).agg(first, last)


def _bucket(rows: DataFrame, index: int, seconds: int) -> Column:
    """The second since 1970 with which it begins; the column has seconds, as chains do, or
    moments."""
    from pyspark.sql import functions as f

    if TIME not in rows.columns:
        raise InvalidConfig(
            f"input {index} has blocks and no column {TIME}: its rows are in no bucket of time",
            hint=f"select {TIME} in the job that writes it; rows of a chain and decoded ones have"
            " it",
        )
    kind = rows.schema[TIME].dataType.typeName()
    moment = rows[TIME] if kind in ("integer", "long") else f.unix_seconds(rows[TIME])
    said = InvalidQuery(
        f"input {index} has rows whose {TIME} is null: they are in no bucket of time",
        hint="leave them out, or give them a time, in the job that writes them",
    )
    known = f.coalesce(moment, f.raise_error(f.lit(f"\n{note_of(said)}\n")).cast("bigint"))
    return known - f.pmod(known, f.lit(seconds))


def _fits(most: int) -> Column:
    """True; the task fails where a bucket of time has more blocks than are read around."""
    from pyspark.sql import functions as f

    said = InvalidQuery(
        f"a bucket of time has more than {most} blocks, and window.most_blocks says {most}",
        hint="raise it: what lies further away was not read",
    )
    fits = f.col(_LAST) - f.col(_FIRST) < most
    return f.assert_true(fits, f.lit(f"\n{note_of(said)}\n")).isNull()
