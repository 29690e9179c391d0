"""Columns of a declared schema: as Spark reads them, and from text where it knows no such text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

# Bytes that are no text: 0x and hexadecimal digits.
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


def as_read(columns: Mapping[str, str]) -> StructType:
    """From text: bytes are text there, and what does not fit is kept."""
    from pyspark.sql.types import StructType

    kinds = {name: known_type(declared) for name, declared in columns.items()} | {REST: "string"}
    texts = {name: "string" if kind == "binary" else kind for name, kind in kinds.items()}
    return StructType.fromDDL(", ".join(f"`{name}` {kind}" for name, kind in texts.items()))


def as_declared(frame: DataFrame, columns: Mapping[str, str], *, from_text: bool) -> list[Column]:
    from pyspark.sql import functions as f

    found = []
    for name, declared in columns.items():
        kind = known_type(declared)
        if kind == "binary" and from_text:
            found.append(f.unhex(f.substring(name, 3, 2**31 - 1)).alias(name))
        elif name in frame.columns:
            found.append(f.col(name).cast(kind).alias(name))
        else:
            found.append(f.lit(None).cast(kind).alias(name))
    return found


def is_bad(columns: Mapping[str, str]) -> Column:
    """Of rows read from text: they did not fit the columns, or hold bytes that are none."""
    from pyspark.sql import functions as f

    bad = f.col(REST).isNotNull()
    for name, declared in columns.items():
        if known_type(declared) == "binary":
            size = bytes_of(declared)
            digits = "([0-9a-fA-F]{2})*" if size is None else f"[0-9a-fA-F]{{{2 * size}}}"
            bad = bad | ~f.coalesce(f.col(name).rlike(f"^0x{digits}$"), f.lit(True))
    return bad
