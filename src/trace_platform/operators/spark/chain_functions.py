"""The functions of chain data in Spark SQL: those of queries, with the same names and results.

    spark.sql("SELECT to_0x(keccak256(data)), sum_exact(value) FROM …")

Where Spark is exact it computes itself, else Python does over whole Arrow columns. Spark has no
integer of 256 bits: such numbers are decimal text, as wide as they need to be, and BINARY in 32
bytes. What cannot be exact is an error. Where bytes are wanted, text is refused: Spark would hash
its letters.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from trace_platform.domain.chain_values import (
    checksum_address,
    in_units,
    product,
    quotient,
    remainder,
    signature,
    signed,
    unhexed,
    unsigned,
    whole,
    word,
)
from trace_platform.domain.evm_encoding import keccak256

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Function = Callable[..., Any]
Check = Callable[[str, pa.Array], list[Any]]

_TO_0X = (
    "CREATE OR REPLACE TEMPORARY FUNCTION to_0x(bytes BINARY) RETURNS STRING"
    " RETURN concat('0x', lower(hex(bytes)))"
)
_UNITS = pa.decimal128(38, 18)
_WEI = 18


def register(spark: SparkSession) -> None:
    """In this session, for SQL and `expr`. No Python worker starts before one is used."""
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.types import BinaryType, DecimalType, StringType

    kinds = {pa.string(): StringType(), pa.binary(): BinaryType(), _UNITS: DecimalType(38, 18)}
    for name, (function, checks, kind) in _SCALARS.items():
        scalar = _by_column(name, function, checks, kind)
        spark.udf.register(name, arrow_udf(scalar, kinds[kind]))
    # What it gives for a group says that it aggregates: the annotations are read.
    spark.udf.register("sum_exact", arrow_udf(_sum, StringType()))
    spark.sql(_TO_0X)
    # Spark has an `unhex` of its own, which knows no 0x and makes NULL of what is no hex.
    spark.conf.set("spark.sql.functionResolution.sessionOrder", "first")


def _by_column(name: str, function: Function, checks: list[Check], kind: pa.DataType) -> Function:
    """Null where a value is."""

    def over(*columns: pa.Array) -> pa.Array:
        if len(columns) != len(checks):
            raise TypeError(f"{name} takes {len(checks)} values, not {len(columns)}")
        given = (check(name, column) for check, column in zip(checks, columns, strict=True))
        rows = zip(*given, strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], kind)

    return over


def _sum(numbers: pa.Array) -> str | None:
    """Of one group. Null, as SQL has it, when there is no number in it."""
    found = [int(whole(each)) for each in _integers("sum_exact", numbers) if each is not None]
    return str(sum(found)) if found else None


def _bytes(name: str, column: pa.Array) -> list[Any]:
    kind = column.type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_null(kind)):
        raise TypeError(f"{name} takes bytes, not {kind}: unhex(text) makes them of hex")
    return list(column.to_pylist())


def _text(name: str, column: pa.Array) -> list[Any]:
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise TypeError(f"{name} takes text, not {kind}")
    return list(column.to_pylist())


def _integers(name: str, column: pa.Array) -> list[str | None]:
    """As text, from integers of any type or text."""
    if pa.types.is_binary(column.type):
        raise TypeError(f"{name} takes numbers: bytes_to_uint(bytes) makes them of bytes")
    return [_digits(each) for each in column.to_pylist()]


def _digits(number: Any) -> str | None:
    if isinstance(number, Decimal):
        return format(number, "f")
    return None if number is None else str(number)


def _counts(name: str, column: pa.Array) -> list[Any]:
    if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise TypeError(f"the decimals of {name} are an integer, not {column.type}")
    return list(column.to_pylist())


def _topic(text: str) -> bytes:
    return keccak256(signature(text).encode())


def _selector(text: str) -> bytes:
    return _topic(text)[:4]


def _units(digits: str, decimals: int) -> Decimal:
    return Decimal(in_units(digits, decimals))


def _wei(digits: str) -> Decimal:
    return _units(digits, _WEI)


_SCALARS: dict[str, tuple[Function, list[Check], pa.DataType]] = {
    "unhex": (unhexed, [_text], pa.binary()),
    "from_hex": (unhexed, [_text], pa.binary()),
    "checksum_address": (checksum_address, [_bytes], pa.string()),
    "keccak256": (keccak256, [_bytes], pa.binary()),
    "topic": (_topic, [_text], pa.binary()),
    "selector": (_selector, [_text], pa.binary()),
    "bytes_to_uint": (unsigned, [_bytes], pa.string()),
    "bytes_to_int": (signed, [_bytes], pa.string()),
    "uint_to_bytes": (word, [_integers], pa.binary()),
    "mul_exact": (product, [_integers, _integers], pa.string()),
    "div_exact": (quotient, [_integers, _integers], pa.string()),
    "mod_exact": (remainder, [_integers, _integers], pa.string()),
    "from_units": (_units, [_integers, _counts], _UNITS),
    "from_wei": (_wei, [_integers], _UNITS),
}
NAMES = frozenset({*_SCALARS, "to_0x", "sum_exact"})
