"""The columns that Spark and Parquet files have in common: what of a file Spark reads, and what of
a frame becomes a file that every other reader understands in the same way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as arrow

from trace_platform.domain.errors import InvalidQuery, UnsupportedType, note_of
from trace_platform.wire.manifest import Merge
from trace_platform.wire.parquet_writer import MOST_DIGITS, leaves

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_CAST_THERE = "cast it in the job that writes it: times of day to text, moments to microseconds"
_NOT_UTF8 = "keep it as binary, or see Spark's make_valid_utf8 and try_validate_utf8"
# Of a column of a fold, in Spark's metadata and in Arrow's: how it is merged.
MERGE = "trace.merge"
_OF_SPARK = b"org.apache.spark.sql.parquet.row.metadata"
_TEXTS = ("string", "char", "varchar")
_FLOATS = ("float", "double")
# By Spark's names of them. Of all others there is none that all readers know.
_WRITTEN = {
    *_TEXTS,
    *_FLOATS,
    *("boolean", "byte", "short", "integer", "long", "decimal", "binary"),
    *("date", "timestamp", "timestamp_ntz", "void"),
}
_CURES = {
    "variant": "write its text: to_json(c)",
    "geometry": "write its bytes: st_asbinary(c)",
    "geography": "write its bytes: st_asbinary(c)",
}
_CURE = "write the number that it stands for, or cast it to string"


def columns_of(file: pq.ParquetFile) -> pa.Schema:
    """As Spark reads them. It once wrote moments as INT96, which Arrow takes for nanoseconds."""
    physical = [file.schema.column(n).physical_type for n in range(len(file.schema))]
    if "INT96" not in physical:
        return with_merges(file)
    each = iter(physical)
    return pa.schema([_field_with_moments(field, each) for field in file.schema_arrow])


def with_merges(file: pq.ParquetFile) -> pa.Schema:
    """The columns of a file, those of a fold with how they are merged: Spark keeps that of what it
    writes beside its own names of the types."""
    schema = file.schema_arrow.remove_metadata()
    said = (file.metadata.metadata or {}).get(_OF_SPARK)
    if said is None or MERGE.encode() not in said:
        return schema
    merges = {
        field["name"]: field["metadata"][MERGE]
        for field in json.loads(said)["fields"]
        if MERGE in field["metadata"]
    }
    return pa.schema(
        [
            field.with_metadata({MERGE: merges[field.name]}) if field.name in merges else field
            for field in schema
        ]
    )


def merge_of(field: pa.Field) -> Merge | None:
    said = (field.metadata or {}).get(MERGE.encode())
    return None if said is None else cast(Merge, said.decode())


def check_readable(schema: pa.Schema, origin: str) -> None:
    """Raise UnsupportedType for a column that Spark does not read, or for a bare number."""
    for field in schema:
        if not all(map(_is_readable, leaves(field.type))):
            raise UnsupportedType(
                f"{origin}: column {field.name} is {field.type}, which Spark does not read",
                hint=_CAST_THERE,
            )


def check_writable(frame: DataFrame) -> None:
    """Raise UnsupportedType for a column that readers would take for something else: of an interval
    Spark writes a bare number."""
    for field in frame.schema:
        for path, kind in _leaves(field.name, field.dataType):
            if kind.typeName() not in _WRITTEN:
                raise UnsupportedType(
                    f"column {path} is {kind.simpleString()}: no Parquet file holds it for all"
                    " readers",
                    hint=_CURES.get(kind.typeName(), _CURE),
                )


def float_columns(frame: DataFrame) -> list[str]:
    """Of each that is a float, or has one in it, its place in a file."""
    return [
        path
        for field in frame.schema
        for path, kind in _leaves(field.name, field.dataType)
        if kind.typeName() in _FLOATS
    ]


def with_valid_text(frame: DataFrame) -> DataFrame:
    """The same rows. Writing them fails with InvalidQuery when a text is not UTF-8: Spark casts any
    bytes to one, and no other reader could read the file."""
    from pyspark.sql import functions as f

    for field in frame.schema:
        if _has_text(field.dataType):
            said = f"column {field.name} has text that is not UTF-8"
            note = f"\n{note_of(InvalidQuery(said, hint=_NOT_UTF8))}\n"
            valid = _is_valid(f.col(_quoted(field.name)), field.dataType)
            frame = frame.filter(f.assert_true(valid, note).isNull())
    return frame


def _with_moments(kind: pa.DataType, physical: Iterator[str]) -> pa.DataType:
    """The type, with a moment for each INT96 among the columns that it takes."""
    if arrow.is_map(kind):
        key, item = (_field_with_moments(f, physical) for f in (kind.key_field, kind.item_field))
        return pa.map_(key, item)
    if arrow.is_list(kind):
        return pa.list_(_field_with_moments(kind.value_field, physical))
    if arrow.is_struct(kind):
        return pa.struct([_field_with_moments(field, physical) for field in kind.fields])
    return pa.timestamp("us", "UTC") if next(physical) == "INT96" else kind


def _field_with_moments(field: pa.Field, physical: Iterator[str]) -> pa.Field:
    return field.with_type(_with_moments(field.type, physical))


def _is_readable(kind: pa.DataType) -> bool:
    if arrow.is_decimal(kind):
        return bool(kind.precision <= MOST_DIGITS)
    if arrow.is_timestamp(kind):
        return bool(kind.unit != "ns")
    is_other = arrow.is_time(kind) or arrow.is_duration(kind) or arrow.is_float16(kind)
    return not is_other and not isinstance(kind, pa.BaseExtensionType)


def _leaves(path: str, kind: Any) -> Iterator[tuple[str, DataType]]:
    """Where in a file its values are, and of which types."""
    match kind.typeName():
        case "array":
            yield from _leaves(f"{path}.list.element", kind.elementType)
        case "map":
            yield from _leaves(f"{path}.key_value.key", kind.keyType)
            yield from _leaves(f"{path}.key_value.value", kind.valueType)
        case "struct" if kind.fields:
            for field in kind.fields:
                yield from _leaves(f"{path}.{field.name}", field.dataType)
        case _:
            yield path, kind


def _is_valid(column: Column, kind: Any) -> Column:
    from pyspark.sql import functions as f

    conditions = _conditions(column, kind)
    return reduce(and_, (f.coalesce(each, f.lit(True)) for each in conditions), f.lit(True))


def _conditions(column: Column, kind: Any) -> list[Column]:
    """What holds where every text in it is UTF-8; null where there is none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType

    if not _has_text(kind):
        return []
    match kind.typeName():
        case "array":
            return [f.forall(column, lambda each: _is_valid(each, kind.elementType))]
        case "map":
            keys = _conditions(f.map_keys(column), ArrayType(kind.keyType))
            return keys + _conditions(f.map_values(column), ArrayType(kind.valueType))
        case "struct":
            parts = [(column.getField(each.name), each.dataType) for each in kind.fields]
            return [each for part in parts for each in _conditions(*part)]
    return [f.is_valid_utf8(column)]


def _has_text(kind: DataType) -> bool:
    return any(leaf.typeName() in _TEXTS for _, leaf in _leaves("", kind))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
