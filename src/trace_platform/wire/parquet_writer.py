"""How rows of Arrow become a Parquet file that every reader understands in the same way.

Columns of floats have neither statistics nor a dictionary. Of the statistics Arrow leaves NaN out,
and readers that believe them skip its rows. In a dictionary readers look for 0.0 and do not find
-0.0, which equals it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as arrow

from trace_platform.domain.errors import UnsupportedType

# Of a decimal: with more of them DuckDB reads a double.
MOST_DIGITS = 38
_CAST = "cast it, for instance to text"
_FLOATS = ("FLOAT", "DOUBLE")


def open_writer(
    sink: Any, schema: pa.Schema, plain: Collection[str] = (), level: int | None = None
) -> pq.ParquetWriter:
    """`plain` are the columns whose values hardly repeat: for them a dictionary is lost work. Raise
    UnsupportedType."""
    stored = stored_as(schema)
    columns = [stored.column(n) for n in range(len(stored))]
    floats = {column.path for column in columns if _is_float(column)}
    told = [column.path for column in columns if column.path not in floats]
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=level,
        use_dictionary=[path for path in told if path.partition(".")[0] not in plain],
        write_statistics=told,
    )


def stored_as(schema: pa.Schema) -> pq.ParquetSchema:
    """The columns as a file of them says them: Parquet counts no seconds. Raise UnsupportedType for
    a column that readers would take for something else, or that Parquet does not have."""
    for field in schema:
        _check(field)
    file = pa.BufferOutputStream()
    pq.ParquetWriter(file, schema).close()
    return pq.read_metadata(pa.BufferReader(file.getvalue())).schema


def leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types of the values that a value of this type is made of."""
    if arrow.is_dictionary(kind):
        yield from leaves(kind.value_type)
    elif arrow.is_nested(kind) and kind.num_fields and not _is_view(kind):
        for n in range(kind.num_fields):
            yield from leaves(kind.field(n).type)
    else:
        yield kind


def _check(field: pa.Field) -> None:
    for kind in leaves(field.type):
        if cure := _cure(kind):
            raise _unsupported(field, kind, cure)
    try:
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
    except (pa.ArrowException, OSError):
        raise _unsupported(field, field.type, _CAST) from None


def _cure(kind: pa.DataType) -> str | None:
    """None: there is nothing to cure."""
    if arrow.is_duration(kind):
        return "readers would see a bare number: cast it to one, and say its unit in its name"
    if arrow.is_decimal256(kind) and kind.precision > MOST_DIGITS:
        return f"readers have {MOST_DIGITS} digits: cast it to text, or to 32 bytes"
    if _is_view(kind):
        return "not all readers know it: cast it to a list"
    if isinstance(kind, pa.BaseExtensionType):
        return f"readers would see {kind.storage_type}: cast it to that"
    return None


def _is_view(kind: pa.DataType) -> bool:
    return bool(arrow.is_list_view(kind) or arrow.is_large_list_view(kind))


def _unsupported(field: pa.Field, kind: pa.DataType, cure: str) -> UnsupportedType:
    named = f"column {field.name!r} is {field.type}"
    within = "" if kind == field.type else f", with {kind} in it"
    return UnsupportedType(f"{named}{within}: no Parquet file holds it for all readers", hint=cure)


def _is_float(column: pq.ColumnSchema) -> bool:
    return column.physical_type in _FLOATS or column.logical_type.type == "FLOAT16"
