"""The columns of a generation as queries see them: DuckDB's names of Arrow's types."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trace_platform.drivers.postgres.queries import Row
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.query import QueryColumn

_NAMES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "binary": "BLOB",
    "large_binary": "BLOB",
    "date32[day]": "DATE",
    "timestamp[us]": "TIMESTAMP",
    "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE",
}
_DECIMAL = re.compile(r"decimal128\((\d+), (\d+)\)")
_FIXED = re.compile(r"fixed_size_binary\[\d+\]")


def query_columns(columns: Sequence[ManifestColumn]) -> list[QueryColumn] | None:
    """None when nobody said them, or one is of a type that has no plain name."""
    named = [(column.name, _name(column.type)) for column in columns]
    if not named or any(kind is None for _, kind in named):
        return None
    return [QueryColumn(name=name, type=kind) for name, kind in named if kind is not None]


def committed_columns(described: Row) -> list[QueryColumn] | None:
    """Of a row of `query_datasets.described`: what the commits say."""
    said = described["columns"] or ()
    return query_columns([ManifestColumn.model_validate(column) for column in said])


def _name(arrow: str) -> str | None:
    if found := _DECIMAL.fullmatch(arrow):
        return f"DECIMAL({found[1]},{found[2]})"
    return "BLOB" if _FIXED.fullmatch(arrow) else _NAMES.get(arrow)
