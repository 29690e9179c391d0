"""Buckets of time of a `window`: which of them a task makes, and the rows of those.

A task is about a bucket of blocks, and reads as many blocks around it as a bucket of time may have.
It makes the buckets of time whose first row lies in its own blocks: every bucket is made once, by a
task that sees all of its rows, and those of as many buckets around it as the window asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from trace_platform.domain.alike import instead
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, InvalidQuery, note_of
from trace_platform.operators.io.parquet_input import BLOCK
from trace_platform.operators.transform.mode import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIME = "timestamp"
# A name that no input has, since both sides of a join are looked through for it.
_BUCKET, _FIRST, _LAST = "bucket_of_time", "first", "last"
# Of columns that an error names.
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    window: Window
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
        return cls(window, seconds, own.select(_BUCKET))

    def readable(self, rows: DataFrame, index: int) -> DataFrame:
        """Those of the task's buckets of time and of what is around these. What has no blocks is
        read as a whole."""
        from pyspark.sql import functions as f

        if BLOCK not in rows.columns:
            return rows
        seen = self._with_around(index)
        return rows.join(seen, _of_input(rows, index, self.seconds) == f.col(_BUCKET), "semi")

    def own_results(self, rows: DataFrame, time: str) -> DataFrame:
        """Of the result's rows those whose `time` is in the task's buckets. Raise InvalidConfig
        when it has no such column."""
        from pyspark.sql import functions as f

        if time not in rows.columns:
            raise InvalidConfig(
                f"window.time: the result has no column {time}",
                hint=instead(time, rows.columns, _SHOWN, "it has"),
            )
        bucket = _bucket(rows, time, f"the result has rows whose {time} is null", self.seconds)
        return rows.join(self.own, bucket == f.col(_BUCKET), "semi")

    def _with_around(self, index: int) -> DataFrame:
        from pyspark.sql import functions as f

        around = self.window.buckets_around(index)
        steps = [f.lit(n * self.seconds) for n in range(-around.before, around.after + 1)]
        if len(steps) == 1:
            return self.own
        near = f.explode(f.transform(f.array(*steps), lambda step: f.col(_BUCKET) + step))
        return self.own.select(near.alias(_BUCKET))


def _spans(rows: DataFrame, index: int, seconds: int) -> DataFrame:
    """Of each bucket of time the first and the last block with a row of it."""
    from pyspark.sql import functions as f

    bucket = _of_input(rows, index, seconds).alias(_BUCKET)
    first, last = f.min(BLOCK).alias(_FIRST), f.max(BLOCK).alias(_LAST)
    return rows.groupBy(bucket).agg(first, last)


def _of_input(rows: DataFrame, index: int, seconds: int) -> Column:
    if TIME not in rows.columns:
        raise InvalidConfig(
            f"input {index} has blocks and no column {TIME}: its rows are in no bucket of time",
            hint=f"select {TIME} in the job that writes it; rows of a chain and decoded ones have"
            " it",
        )
    return _bucket(rows, TIME, f"input {index} has rows whose {TIME} is null", seconds)


def _bucket(rows: DataFrame, time: str, without: str, seconds: int) -> Column:
    """The second since 1970 with which it begins; the column has seconds, as chains do, or
    moments. The task fails where it is null: `without` says whose it is."""
    from pyspark.sql import functions as f

    kind, column = rows.schema[time].dataType.typeName(), f.col(f"`{time}`")
    whole = kind in ("integer", "long")
    moment = column.cast("bigint") if whole else f.unix_seconds(column.cast("timestamp"))
    said = InvalidQuery(
        f"{without}: they are in no bucket of time",
        hint="leave them out where they are made, or give them a time",
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
