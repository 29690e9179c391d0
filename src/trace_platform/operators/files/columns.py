"""Columns of a declared schema, and what they are called by Spark and by Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_SIZED = re.compile(r"(decimal)\((\d+),(\d+)\)|(binary)\((\d+)\)")
_SPARK = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
}
_ARROW = {
    "boolean": "bool",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date32[day]",
    "timestamp": "timestamp[us, tz=UTC]",
}
TYPES = f"{', '.join(_SPARK)}, decimal(p,s) and binary(n)"
# What a line says that does not fit the columns.
REST = "_rest"


def known_type(declared: str) -> str:
    """As Spark calls it. Raise ValueError for one that no file is read into."""
    said = re.sub(r"\s+", "", declared).lower()
    match = _SIZED.fullmatch(said)
    if match:
        return f"decimal({match[2]},{match[3]})" if match[1] else "binary"
    if said not in _SPARK:
        raise ValueError(f"unknown type '{declared}'; there are {TYPES}")
    return _SPARK[said]


def arrow_type(declared: str) -> str:
    """What Arrow calls it once Spark has written it."""
    kind = known_type(declared)
    return _ARROW.get(kind) or f"decimal128({kind[8:-1].replace(',', ', ')})"


def bytes_of(declared: str) -> int | None:
    """Of binary(n): n."""
    match = _SIZED.fullmatch(re.sub(r"\s+", "", declared).lower())
    return int(match[5]) if match and match[4] else None


def as_read(columns: Iterable[str]) -> StructType:
    """All as text, and what of a line does not fit them."""
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in (*columns, REST)])
