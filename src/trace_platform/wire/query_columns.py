"""The columns of a generation as queries see them: DuckDB's names of Arrow's types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trace_platform.wire.column_type import without_inner_names
from trace_platform.wire.manifest import ManifestColumn, Merge
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
    "halffloat": "FLOAT",
    "null": '"NULL"',
    "date32[day]": "DATE",
    "date64[ms]": "DATE",
    "time32[s]": "TIME",
    "time32[ms]": "TIME",
    "time64[us]": "TIME",
    "time64[ns]": "TIME_NS",
}
_PATTERNS = {
    re.compile(r"decimal(?:32|64|128)\((\d+), (\d+)\)"): r"DECIMAL(\1,\2)",
    re.compile(r"fixed_size_binary\[\d+\]"): "BLOB",
    re.compile(r"timestamp\[(?:s|ms|us)\]"): "TIMESTAMP",
    re.compile(r"timestamp\[(?:s|ms|us), tz=[^\]]+\]"): "TIMESTAMP WITH TIME ZONE",
}
_LIST = re.compile(r"(?:large_|fixed_size_)?list<(.*)>(?:\[\d+\])?")
_NESTED = re.compile(r"(map|struct)<(.*)>")
# A field of a struct: one whose name has signs of these types themselves cannot be told apart.
_FIELD = re.compile(r"([^<>,:\"]+): (.*?)(?: not null)?")
_DEPTH = {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}


# Nanoseconds without a zone have no plain name: what Spark wrote once was called so as well, and
# DuckDB reads microseconds there.


def query_columns(columns: Sequence[ManifestColumn]) -> list[QueryColumn] | None:
    """None when nobody said them, or one is of a type that has no plain name."""
    named = [(column.name, _merged_name(column)) for column in columns]
    if not named or any(kind is None for _, kind in named):
        return None
    return [QueryColumn(name=name, type=kind) for name, kind in named if kind is not None]


def merges_of(columns: Sequence[ManifestColumn]) -> dict[str, Merge]:
    """Of a fold: by column how its partial results are merged."""
    return {column.name: column.merge for column in columns if column.merge is not None}


def _merged_name(column: ManifestColumn) -> str | None:
    """Of a fold the type of the result."""
    stored = without_inner_names(column.type)
    match column.merge:
        case "avg" | "avg_exact":
            return "DOUBLE"
        case "count_distinct":
            return "BIGINT"
        case "first" | "last":
            struct = _NESTED.fullmatch(stored)
            fields = None if struct is None else _fields(struct[2])
            return fields[-1][1] if fields else None
    return _name(stored)


def _name(arrow: str) -> str | None:
    if arrow in _NAMES:
        return _NAMES[arrow]
    for pattern, name in _PATTERNS.items():
        if found := pattern.fullmatch(arrow):
            return found.expand(name)
    if found := _LIST.fullmatch(arrow):
        inner = _fields(found[1])
        return f"{inner[0][1]}[]" if inner is not None and len(inner) == 1 else None
    if found := _NESTED.fullmatch(arrow):
        return _map(found[2]) if found[1] == "map" else _struct(found[2])
    return None


def _map(arrow: str) -> str | None:
    kinds = [_name(each.removesuffix(" not null")) for each in _parts(arrow)]
    return f"MAP({kinds[0]}, {kinds[1]})" if len(kinds) == 2 and all(kinds) else None


def _struct(arrow: str) -> str | None:
    fields = [f'"{name}" {kind}' for name, kind in _fields(arrow) or ()]
    return f"STRUCT({', '.join(fields)})" if fields else None


def _fields(arrow: str) -> list[tuple[str, str]] | None:
    """Names and types, when each of them can be told."""
    found = [_FIELD.fullmatch(part) for part in _parts(arrow)]
    named = [(each[1], _name(each[2])) for each in found if each is not None]
    fields = [(name, kind) for name, kind in named if kind is not None]
    return fields if len(fields) == len(found) else None


def _parts(arrow: str) -> Iterator[str]:
    """What the commas separate that are in no brackets."""
    depth = start = 0
    for at, sign in enumerate(arrow):
        depth += _DEPTH.get(sign, 0)
        if depth == 0 and arrow.startswith(", ", at):
            yield arrow[start:at]
            start = at + 2
    yield arrow[start:]
