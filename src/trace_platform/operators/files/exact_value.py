"""Values of files as the types of columns: exactly, or not at all.

Spark rounds decimals, cuts times and takes the first part of a date. Here what is no value of its
column as it stands is none: it is null, and its row is rejected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_platform.operators.files.columns import bytes_of, known_type

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?"
_WHOLE = r"[+-]?\d+"
_TEXTS = {
    "boolean": r"(?i)(true|false)",
    "float": rf"(?i)({_NUMBER}|[+-]?(nan|inf|infinity))",
    "double": rf"(?i)({_NUMBER}|[+-]?(nan|inf|infinity))",
    "date": r"\d{4}-\d\d-\d\d",
    # Spark would leave out what is finer than a microsecond.
    "timestamp": r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{0,6}0*)?)? ?(Z|[+-]\d\d:?\d\d)?)?",
}
_FLOATS = ("float", "double")


def of_text(text: Column, declared: str) -> Column:
    """What the text says; null where it is no value of that type."""
    from pyspark.sql import functions as f

    kind = known_type(declared)
    if kind == "string":
        return text
    if kind == "binary":
        size = bytes_of(declared)
        digits = "([0-9a-fA-F]{2})*" if size is None else f"[0-9a-fA-F]{{{2 * size}}}"
        # Not unhex: the session's own is Python's, which is asked about rows that are none, too.
        value = f.try_to_binary(f.substring(text, 3, 2**31 - 1), f.lit("hex"))
        return f.when(text.rlike(rf"\A0x{digits}\z"), value)
    said = f.trim(text)
    value = said.try_cast(kind)
    if kind.startswith("decimal"):
        places = int(kind[:-1].partition(",")[2])
        return f.when(said.rlike(rf"\A{_NUMBER}\z") & (_decimals(said) <= places), value)
    fits = said.rlike(rf"\A{_TEXTS.get(kind, _WHOLE)}\z")
    if kind in _FLOATS:
        # More than the type has is no infinity.
        fits = fits & ((f.abs(value) < float("inf")) | ~said.rlike(r"\d"))
    return f.when(fits, value)


def of_column(column: Column, found: DataType, declared: str) -> Column | None:
    """The same of a column that has a type; None where no value of the one is one of the other."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    kind, numbers = known_type(declared), isinstance(found, t.NumericType)
    wants_number = kind in (*_FLOATS, "tinyint", "smallint", "int", "bigint") or "(" in kind
    times = (t.DateType, t.TimestampType, t.TimestampNTZType)
    if isinstance(found, t.StringType):
        return of_text(column, declared)
    if isinstance(found, t.BinaryType) and kind == "binary":
        size = bytes_of(declared)
        return column if size is None else f.when(f.octet_length(column) == size, column)
    if (isinstance(found, t.BooleanType) and kind == "boolean") or (numbers and kind in _FLOATS):
        return column.try_cast(kind)
    if (numbers and wants_number) or (isinstance(found, times) and kind in ("date", "timestamp")):
        value = column.try_cast(kind)
        return f.when(value.try_cast(found) == column, value)
    return None


def _decimals(said: Column) -> Column:
    """How many digits stand behind the point, without zeros at the end: of 1200e-3 one."""
    from pyspark.sql import functions as f

    digits = f.regexp_replace(f.regexp_extract(said, r"\A[+-]?([\d.]*)", 1), r"\.", "")
    behind = f.length(f.regexp_extract(said, r"\.(\d*)", 1))
    zeros = f.length(f.regexp_extract(digits, r"(0*)\z", 1))
    exponent = f.regexp_extract(said, r"[eE]([+-]?\d+)", 1).try_cast("int")
    found = behind - zeros - f.coalesce(exponent, f.lit(0))
    return f.when(zeros == f.length(digits), 0).otherwise(found)
