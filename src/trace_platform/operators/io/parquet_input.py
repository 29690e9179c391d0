"""Committed Parquet files as a DataFrame.

Footers are read here, by the driver: they tell the columns, which Spark would run a job to find,
and the blocks that a file holds. Rows are read by executors alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as arrow

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import CorruptFile, IncompatibleSchema, MissingFile
from trace_platform.domain.file_ranges import merge, touches
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.operators.io import partials
from trace_platform.operators.io.parquet_columns import check_readable, columns_of, merge_of
from trace_platform.wire.manifest import Merge

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

BLOCK = "block_number"
_VERIFY = "`trace datasets verify` finds what is damaged"
_NEW_GENERATION = "a column keeps its type within a generation: build a new one"
_LIST_HERE = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MANY_FILES = 1_000_000
# A value, at most, where it is a number of a dictionary's entry.
_PLAIN_BYTES = 6
# Of footers at once: a distant store answers each in tens of milliseconds.
_THREADS = 16


@dataclass(frozen=True, slots=True)
class Footer:
    uri: str
    schema: pa.Schema
    bytes: int
    # Of the blocks that its rows are of; None when the file does not say.
    blocks: BlockRange | None
    # Columns whose values hardly repeat: a dictionary of them was of no use.
    plain: frozenset[str]


def footers(uris: Iterable[str], store: ObjectStore, origin: str) -> list[Footer]:
    """In the order of `uris`; `origin` says whose they are. Raise MissingFile, CorruptFile."""
    wanted = list(dict.fromkeys(uris))
    if len(wanted) < 2:
        return [_footer(uri, store, origin) for uri in wanted]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda uri: _footer(uri, store, origin), wanted))


def merged_schema(found: Sequence[Footer], origin: str) -> pa.Schema:
    """The columns of all the files: those that came later follow, and are null where they are not.

    Raise IncompatibleSchema when a column has several types.
    """
    fields: dict[str, tuple[pa.Field, str]] = {}
    for footer in found:
        for field in footer.schema:
            known, where = fields.setdefault(field.name.lower(), (field, footer.uri))
            if known.name != field.name or not _is_alike(known.type, field.type):
                raise IncompatibleSchema(
                    f"{origin}: column {known.name} is {known.type} in {_name(where)},"
                    f" and {field.name} is {field.type} in {_name(footer.uri)}",
                    hint=_NEW_GENERATION,
                )
    return pa.schema([field.with_nullable(True) for field, _ in fields.values()])


def check_types(first: StructType, second: StructType, origin: str) -> None:
    """Raise IncompatibleSchema when columns of the same name have different types."""
    kinds = {field.name: field.dataType for field in first}
    for field in second:
        if kinds.get(field.name, field.dataType) != field.dataType:
            raise IncompatibleSchema(
                f"{origin}: column {field.name} is {field.dataType.simpleString()} in a part of it"
                f" and {kinds[field.name].simpleString()} in another",
                hint=_NEW_GENERATION,
            )


def rows(
    found: Sequence[Footer],
    ranges: Sequence[BlockRange],
    spark: SparkSession,
    store: ObjectStore,
    origin: str,
) -> DataFrame:
    """The rows of the files, of which there is at least one; with ranges only those of these
    blocks, where rows have a block at all. Of a fold the results of all that is in the files."""
    frame = _as_stored(found, ranges, spark, store, origin)
    merges = _merges(found, origin)
    return partials.results(frame, merges) if merges else frame


def merged(
    found: Sequence[Footer], spark: SparkSession, store: ObjectStore, origin: str
) -> DataFrame:
    """Of a fold the partial results of all that is in the files."""
    return partials.combined(_as_stored(found, (), spark, store, origin), _merges(found, origin))


def _merges(found: Sequence[Footer], origin: str) -> dict[str, Merge]:
    schema = merged_schema(found, origin)
    return {field.name: merge for field in schema if (merge := merge_of(field))}


def _as_stored(
    found: Sequence[Footer],
    ranges: Sequence[BlockRange],
    spark: SparkSession,
    store: ObjectStore,
    origin: str,
) -> DataFrame:
    """As it is in the files: of a fold its partial results."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = merged_schema(found, origin)
    check_readable(schema, origin)
    is_plain = all(map(_is_plain, schema.types))
    reader = spark.read.option("mergeSchema", "true")
    if is_plain:
        reader = spark.read.schema(from_arrow_schema(schema))
    needed = [f for f in found if _touches(f, ranges)] or found[:1]
    if store.filesystem(needed[0].uri)[0].type_name == "local":
        # A look at each file here takes microseconds; as Spark tasks, milliseconds each.
        spark.conf.set(_LIST_HERE, _MANY_FILES)
    frame = reader.parquet(*(read_location(footer.uri, store) for footer in needed))
    if BLOCK in schema.names and ranges and not all(_lies_within(f, ranges) for f in needed):
        return frame.filter(within(ranges))
    return frame


def within(ranges: Sequence[BlockRange]) -> Column:
    from pyspark.sql import functions as f

    return reduce(or_, (f.col(BLOCK).between(each.start, each.end) for each in merge(ranges)))


def spark_location(uri: str, store: ObjectStore) -> str:
    """Where Spark finds it, to be written."""
    filesystem, path = store.filesystem(uri)
    return f"file://{path}" if filesystem.type_name == "local" else f"s3a://{path}"


def read_location(uri: str, store: ObjectStore) -> str:
    """The same to be read: Spark takes it for a pattern."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", spark_location(uri, store))


@contextmanager
def named_failures(uri: str, origin: str) -> Iterator[None]:
    """Around a look into a file. Raise MissingFile, CorruptFile."""
    try:
        yield
    except FileNotFoundError:
        raise MissingFile(f"{origin}: {uri} is not there", hint=_VERIFY) from None
    except (pa.ArrowException, OSError) as error:
        said = f"{origin}: {uri} cannot be read: {_first_line(error)}"
        raise CorruptFile(said, hint=_VERIFY) from None


def _footer(uri: str, store: ObjectStore, origin: str) -> Footer:
    filesystem, path = store.filesystem(uri)
    with named_failures(uri, origin), pq.ParquetFile(path, filesystem=filesystem) as file:
        size = filesystem.get_file_info(path).size
        meta = file.metadata
        return Footer(uri, columns_of(file), size, _blocks(meta), _plain(meta))


def _plain(metadata: pq.FileMetaData) -> frozenset[str]:
    size: Counter[str] = Counter()
    values: Counter[str] = Counter()
    for group in range(metadata.num_row_groups):
        for each in range(metadata.num_columns):
            column = metadata.row_group(group).column(each)
            size[column.path_in_schema] += column.total_uncompressed_size
            values[column.path_in_schema] += column.num_values
    return frozenset(name for name in size if size[name] > _PLAIN_BYTES * values[name])


def _blocks(metadata: pq.FileMetaData) -> BlockRange | None:
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    if BLOCK not in names:
        return None
    column = names.index(BLOCK)
    low, high = [], []
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max or statistics.null_count:
            return None
        low.append(statistics.min)
        high.append(statistics.max)
    is_sound = low and isinstance(low[0], int) and 0 <= min(low) <= max(high)
    return BlockRange(min(low), max(high)) if is_sound else None


def _touches(footer: Footer, ranges: Sequence[BlockRange]) -> bool:
    return footer.blocks is None or not ranges or touches(footer.blocks, ranges)


def _lies_within(footer: Footer, ranges: Sequence[BlockRange]) -> bool:
    blocks = footer.blocks
    return blocks is not None and any(
        each.start <= blocks.start and blocks.end <= each.end for each in merge(ranges)
    )


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether they differ at most in what may be null within: engines say that as they please."""
    return bool(one == other or _nullable(one) == _nullable(other))


def _nullable(kind: pa.DataType) -> pa.DataType:
    if arrow.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    if arrow.is_list(kind):
        return pa.list_(_nullable(kind.value_type))
    if arrow.is_struct(kind):
        return pa.struct([pa.field(each.name, _nullable(each.type)) for each in kind.fields])
    return kind


def _is_plain(kind: pa.DataType) -> bool:
    """Whether Spark reads the column as the type that Arrow's corresponds to."""
    signed = arrow.is_signed_integer(kind) or arrow.is_float32(kind) or arrow.is_float64(kind)
    text = arrow.is_string(kind) or arrow.is_binary(kind) or arrow.is_boolean(kind)
    return bool(signed or text or arrow.is_date32(kind) or arrow.is_decimal128(kind))


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]
