"""How a column leaves DuckDB: an expression that makes of its values what the format can carry.

DuckDB does that on all threads, and knows texts that Python and Arrow have no value for: an
interval, an infinite date, an integer of 128 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duckdb.sqltypes import DuckDBPyType

from trace_platform.sql.sql_text import quoted

Expression = Callable[[str, DuckDBPyType], str]

_INTEGERS = {"tinyint", "smallint", "integer", "bigint"}
_NUMBERS = frozenset(_INTEGERS | {f"u{name}" for name in _INTEGERS} | {"boolean"})
_TIMESTAMPS = frozenset({"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"})
_ZONED = "timestamp with time zone"
NESTED = frozenset({"list", "array", "struct", "map"})
FLOATS = frozenset({"float", "double"})
_TIMES = _TIMESTAMPS | {"date", "time", "time_ns", _ZONED}
_WIDE = frozenset({"hugeint", "uhugeint"})
# What Arrow and Parquet have too, value for value.
_IN_ARROW = (
    _NUMBERS
    | FLOATS
    | _TIMESTAMPS
    | {"varchar", "blob", "date", "time", "time_ns", "decimal", "null", _ZONED}
)


def for_json(value: str, kind: DuckDBPyType) -> str:
    """A value that JSON has, or the text that stands for it; nested ones stay as they are."""
    match kind.id:
        case "varchar" | "double" | "null":
            return value
        case "float":
            return f"CAST({value} AS DOUBLE)"
        case "blob":
            return f"'0x' || lower(hex({value}))"
        case name if name in _NUMBERS:
            return value
        case name if name in _TIMESTAMPS:
            return _iso(value, value)
        case name if name == _ZONED:
            return _iso(value, f"({value} AT TIME ZONE 'UTC')", "+00:00")
        case name if name in NESTED:
            return _cast(value, kind, _Carried("VARCHAR", times="VARCHAR"))
        case _:
            return f"CAST({value} AS VARCHAR)"


def for_csv(value: str, kind: DuckDBPyType) -> str:
    """The text that JSON has; nested ones stay as they are."""
    if kind.id == "boolean":
        return f"CAST({value} AS VARCHAR)"
    if kind.id in FLOATS:
        double = f"CAST({value} AS DOUBLE)"
        return (
            f"CASE WHEN isnan({double}) THEN 'NaN' WHEN isfinite({double})"
            f" THEN CAST({double} AS VARCHAR) WHEN {double} > 0 THEN 'Infinity'"
            f" WHEN {double} < 0 THEN '-Infinity' END"
        )
    return for_json(value, kind)


def for_arrow(value: str, kind: DuckDBPyType) -> str:
    """The value, or its text where Arrow would round it or Parquet has no type for it. A sum of
    integers has 128 bits: a decimal, which is refused beyond 38 digits and never rounded."""
    return _cast(value, kind, _ARROW)


def in_arrow(kind: DuckDBPyType) -> str:
    """The type of what `for_arrow` makes of a value."""
    return _carried(kind, _ARROW)


def _iso(value: str, local: str, zone: str = "") -> str:
    """What ISO 8601 has a text for: nothing infinite, and no year before 1."""
    written = f"replace(CAST({local} AS VARCHAR), ' ', 'T')" + (f" || '{zone}'" if zone else "")
    return f"CASE WHEN year({local}) > 0 THEN {written} ELSE CAST({value} AS VARCHAR) END"


@dataclass(frozen=True, slots=True)
class _Carried:
    """As what integers of 128 bits, dates and times are carried; None: as they are. Python has no
    infinite date and no nanoseconds."""

    wide: str
    times: str | None = None


_ARROW = _Carried("DECIMAL(38, 0)")


def _cast(value: str, kind: DuckDBPyType, how: _Carried) -> str:
    carried = _carried(kind, how)
    return value if carried == str(kind) else f"CAST({value} AS {carried})"


def _carried(kind: DuckDBPyType, how: _Carried) -> str:
    if kind.id in _WIDE:
        return how.wide
    if kind.id in _TIMES and how.times is not None:
        return how.times
    if kind.id in _IN_ARROW:
        return str(kind)
    if kind.id not in NESTED:
        return "VARCHAR"
    length = "size" if kind.id == "array" else None
    inner = [(name, _carried(child, how)) for name, child in kind.children if name != length]
    match kind.id:
        case "list":
            return f"{inner[0][1]}[]"
        case "array":
            return f"{inner[0][1]}[{dict(kind.children)['size']}]"
        case "map":
            return f"MAP({inner[0][1]}, {inner[1][1]})"
    return f"STRUCT({', '.join(f'{quoted(name)} {carried}' for name, carried in inner)})"
