"""Rows of DuckDB as JSON that loses nothing (see trace_platform.wire.query)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec

Convert = Callable[[Any], Any]

_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
_AS_IS = frozenset({"BOOLEAN", "VARCHAR"} | _INTEGERS | {f"U{name}" for name in _INTEGERS})
_encoder = msgspec.json.Encoder()


def encode(rows: Sequence[Sequence[Any]], types: Sequence[str]) -> bytes:
    """The rows as JSON arrays joined by commas, without the outer brackets."""
    converters = [converter(name) for name in types]
    if any(converters):
        rows = [
            [v if f is None or v is None else f(v) for f, v in zip(converters, row, strict=True)]
            for row in rows
        ]
    return _encoder.encode(rows)[1:-1]


def converter(type_name: str) -> Convert | None:
    """How a value of this DuckDB type becomes JSON; None when it already is."""
    if type_name in _AS_IS:
        return None
    if type_name in ("HUGEINT", "UHUGEINT", "BIGNUM"):
        return str
    return _plain


def _plain(value: Any) -> Any:
    match value:
        case bool() | str() | None:
            return value
        case int():
            return value if _INT64_MIN <= value <= _UINT64_MAX else str(value)
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case bytes() | bytearray() | memoryview():
            return "0x" + value.hex()
        case Decimal():
            return format(value, "f")
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            return {str(_plain(k)): _plain(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v) for v in value]
        case _:
            return str(value)


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
