"""A DataFrame to Parquet files under one prefix, and the facts that a manifest promises of them.

Spark writes natively, into a folder that nobody reads. Its committer moves the files of one try of
each Spark task there: those of a retried or speculative one never arrive. Then each file is hashed
where it lies, and gets the name that says its blocks.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.operators.io.parquet_columns import (
    check_writable,
    float_columns,
    with_merges,
    with_valid_text,
)
from trace_platform.operators.io.parquet_file import WrittenFile, sync
from trace_platform.operators.io.parquet_input import BLOCK, spark_location
from trace_platform.operators.spark.master import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Large enough that a range is few objects to list, open and delete; small enough that one core
# writes it in seconds, and that a reader of a part of the range leaves most of it alone.
FILE_MB = 192
# What readers skip and decode in parallel, and what a writer holds in the heap: each core has one
# under way, and by default they share 1 GB.
_GROUP_BYTES = 64 * 2**20
# Narrow rows: a group that is one unit of work for a reader, not ten.
_GROUP_ROWS = 1_000_000
# Up to here the driver hashes: a Spark job for it would take longer than the hashing.
_HASH_HERE_BYTES = 8 * 2**20
# What Spark says of a source whose size it cannot know.
_UNKNOWN_BYTES = 2**62
_CHUNK_BYTES = 4 * 2**20
_OPTIONS = {
    "compression": "zstd",
    "parquet.compression.codec.zstd.level": "1",
    "parquet.block.size": str(_GROUP_BYTES),
    "parquet.block.row.count.limit": str(_GROUP_ROWS),
    # The manifest has a digest of the whole file.
    "parquet.page.write-checksum.enabled": "false",
    # For planners of nested columns, which nobody has.
    "parquet.size.statistics.enabled": "false",
    # `_SUCCESS` is the seal of a whole output, and has the manifest's hash in it.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Version 1: a task's files arrive together, and only when the whole job has succeeded.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}


@dataclass(frozen=True, slots=True)
class Written:
    files: list[WrittenFile]
    schema: pa.Schema


def arranged(
    frame: DataFrame, blocks: BlockRange | str, sort_by: Sequence[str], files: int | None
) -> DataFrame:
    """The rows in so many parts (None: as many as there are), each sorted. Parts of rows that have
    blocks hold neighbouring ones, told by the number alone: a sort of Spark's own would read
    everything once more to find out where to cut."""
    if files is not None and (files == 1 or not sort_by):
        frame = _gathered(frame, files)
    elif files is not None and sort_by[0] == BLOCK and not isinstance(blocks, str):
        frame = frame.repartitionById(files, _part_of(blocks, files))
    elif files is not None:
        frame = frame.repartitionByRange(files, *sort_by)
    return frame.sortWithinPartitions(*sort_by) if sort_by else frame


def about_bytes(frame: DataFrame, read_bytes: int) -> int | None:
    """How large the frame may be as files, without running anything; None when nobody can tell.

    Spark multiplies the sides of a join: what goes in is a better guess of what comes out.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    leaves = plan.collectLeaves()
    sizes = [_told_bytes(leaves.apply(n)) for n in range(leaves.size())]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return read_bytes or None
    return min(sum(known), _told_bytes(plan) or sum(known))


def files_for(about_bytes: int, file_mb: int) -> int:
    return max(1, math.ceil(about_bytes / (file_mb * 2**20)))


def write_files(
    frame: DataFrame,
    spark: SparkSession,
    store: ObjectStore,
    prefix: str,
    stem: str,
    plain: Collection[str] = (),
) -> Written:
    """A file per partition that has rows, at least one: `{stem}.parquet`, or `{stem}-NNN.parquet`
    in the order of the partitions. Of `plain` columns nobody tries to make a dictionary. Raise
    UnsupportedType for a column, InvalidQuery for a text, that readers could not read."""
    check_writable(frame)
    folder = f"{prefix}_spark-{uuid4().hex}/"
    # In a dictionary of floats readers would look for 0.0, and not find -0.0, which equals it.
    bare = {*plain, *float_columns(frame)}
    options = _OPTIONS | {f"parquet.enable.dictionary#{name}": "false" for name in bare}
    with_valid_text(frame).write.options(**options).parquet(spark_location(folder, store))
    staged = [uri for uri in store.list(folder) if uri.endswith(".parquet")]
    facts = _facts(staged, spark, store)
    kept = [fact for fact in facts if fact.file.rows] or facts[:1]
    names = [f"{stem}-{n:03}.parquet" for n in range(len(kept))]
    if len(kept) == 1:
        names = [f"{stem}.parquet"]
    for fact, name in zip(kept, names, strict=True):
        _move(store, fact.uri, prefix + name)
    store.delete_prefix(folder)
    files = [replace(fact.file, name=name) for fact, name in zip(kept, names, strict=True)]
    return Written(files, facts[0].schema)


@dataclass(frozen=True, slots=True)
class _Fact:
    uri: str
    file: WrittenFile
    schema: pa.Schema


def _gathered(frame: DataFrame, files: int) -> DataFrame:
    """In so many parts, or up to twice as many that are there: partitions that are put together
    unevenly leave cores idle at the end."""
    there = _parts(frame) if files > 1 else None
    return frame if there is not None and there <= files * 2 else frame.coalesce(files)


def _parts(frame: DataFrame) -> int | None:
    """How many partitions it has; None when only a shuffle would tell."""
    plan = frame._jdf.queryExecution().executedPlan()
    if plan.nodeName() == "AdaptiveSparkPlan":
        return None
    return int(plan.execute().getNumPartitions())


def _told_bytes(plan: Any) -> int | None:
    told = int(str(plan.stats().sizeInBytes()))
    return told if told < _UNKNOWN_BYTES else None


def _part_of(blocks: BlockRange, parts: int) -> Any:
    from pyspark.sql import functions as f

    share = (f.col(BLOCK) - blocks.start) / len(blocks) * parts
    return f.least(f.greatest(f.floor(share), f.lit(0)), f.lit(parts - 1)).cast("int")


def _facts(staged: list[str], spark: SparkSession, store: ObjectStore) -> list[_Fact]:
    sizes = [store.size(uri) or 0 for uri in staged]
    if sum(sizes) <= _HASH_HERE_BYTES:
        return [_fact(uri, store) for uri in staged]
    context = spark.sparkContext
    if is_local(context.master):
        # The executors are here: threads do it without the way there and back.
        with ThreadPoolExecutor(context.defaultParallelism) as pool:
            return list(pool.map(lambda uri: _fact(uri, store), staged))
    told = context.parallelize(staged, len(staged)).map(lambda uri: _fact(uri, store)).collect()
    return sorted(told, key=lambda fact: fact.uri)


def _fact(uri: str, store: ObjectStore) -> _Fact:
    filesystem, path = store.filesystem(uri)
    digest, size = hashlib.sha256(), 0
    # The disk writes what the processor hashes.
    with ThreadPoolExecutor(1) as disk:
        synced = disk.submit(sync, path) if filesystem.type_name == "local" else None
        with filesystem.open_input_stream(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        with pq.ParquetFile(path, filesystem=filesystem) as file:
            rows, schema = file.metadata.num_rows, with_merges(file)
        if synced is not None:
            synced.result()
    return _Fact(uri, WrittenFile(uri.rpartition("/")[2], rows, size, digest.hexdigest()), schema)


def _move(store: ObjectStore, source: str, target: str) -> None:
    filesystem, path = store.filesystem(source)
    filesystem.move(path, store.filesystem(target)[1])
