"""Hot tables as DataFrames: read a range of one snapshot, replace a range in one transaction."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from trace_platform.data.alerts import Alert
from trace_platform.data.hot_reader import Snapshot
from trace_platform.data.hot_rows import HotTable, Staged
from trace_platform.data.hot_tables import HotWriter
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import IncompatibleSchema, TraceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_hot(
    spark: SparkSession,
    seen: Snapshot,
    version: UUID,
    start: int,
    end: int,
    *,
    columns: Sequence[str] | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """The rows of blocks `start` to `end` that the table answers for. Use the DataFrame while the
    snapshot is open: Spark reads when it is asked for rows, and every task joins the snapshot."""
    from trace_platform.operators.io.postgres import source

    source.register(spark, seen.database)
    ranges = _cut(seen, version, start, end, partitions or spark.sparkContext.defaultParallelism)
    return (
        spark.read.format(source.FORMAT)
        .options(
            version=str(version),
            snapshot=seen.id,
            columns=json.dumps(seen.columns(version, columns)),
            key=",".join(seen.key(version)),
            ranges=",".join(blocks.key for blocks in ranges),
        )
        .load()
    )


def write_hot(
    writer: HotWriter,
    start: int,
    end: int,
    frames: Mapping[UUID, DataFrame],
    hashes: Sequence[tuple[int, bytes]] | UUID,
    *,
    alert: Alert | None = None,
    reason: str = "",
) -> None:
    """As `HotWriter.rewrite`, with rows that Spark's tasks stage beside the tables first. `hashes`
    may be the version whose rows have `block_number` and `block_hash` of every block."""
    staged: dict[UUID, Staged] = {}
    try:
        for version, frame in frames.items():
            staged[version] = writer.stage(version)
            _stage(writer, writer.tables[version], frame, staged[version])
        known = staged[hashes] if isinstance(hashes, UUID) else hashes
        writer.rewrite(start, end, staged, known, alert=alert, reason=reason)
    except BaseException:
        for each in staged.values():
            # The next attempt removes what cannot be removed now.
            with contextlib.suppress(TraceError):
                writer.discard(each)
        raise


def _stage(writer: HotWriter, table: HotTable, frame: DataFrame, staged: Staged) -> None:
    from trace_platform.operators.io.postgres import source

    source.register(frame.sparkSession, writer.database)
    _check_columns(table, frame)
    rows = frame.select(*table.schema.names)
    rows.write.format(source.FORMAT).option("staging", staged.name).mode("append").save()


def _check_columns(table: HotTable, frame: DataFrame) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    given = {field.name: field.dataType for field in frame.schema}
    for field in from_arrow_schema(table.schema):
        found = given.get(field.name)
        if found != field.dataType:
            raise IncompatibleSchema(
                f"column {field.name!r} of hot table {table.name}"
                f" is {field.dataType.simpleString()},"
                f" the rows have {found.simpleString() if found else 'no such column'}"
            )


def _cut(seen: Snapshot, version: UUID, start: int, end: int, n: int) -> list[BlockRange]:
    """At most `n` ranges of about as many blocks each, of those that the table answers for."""
    extent = seen.extent(version)
    if extent.first_block is None or extent.last_block is None:
        return []
    start, end = max(start, extent.first_block), min(end, extent.last_block)
    if end < start:
        return []
    size = -(-(end - start + 1) // n)
    return [BlockRange(first, min(first + size - 1, end)) for first in range(start, end + 1, size)]
