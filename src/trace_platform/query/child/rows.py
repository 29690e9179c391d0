"""Rows of DuckDB as JSON that loses nothing (see trace_platform.wire.query), and as CSV.

Most values are what they have to be when they come (result_columns.py): what is left for Python is
nested, or a double that JSON has no number for.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from operator import itemgetter
from typing import Any

import msgspec

Row = Sequence[Any]

_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1
_CRLF = "\r\n"
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Special:
    """Positions of columns whose values may need work."""

    floats: Sequence[int] = ()
    nested: Sequence[int] = ()


def to_json(rows: Sequence[Row], special: Special) -> bytes:
    """The rows as JSON arrays joined by commas, without the outer brackets."""
    unusual = [at for at in special.floats if not _all_finite(rows, at)]
    return _encoder.encode(_converted(rows, [*unusual, *special.nested], plain))[1:-1]


def to_csv(rows: Sequence[Row], special: Special) -> bytes:
    """As in RFC 4180, but for the ends of lines: those of every tool that would read it. Null is
    empty."""
    lines = _Lines()
    # A writer puts what its own line ends are made of in quotes: so a carriage return is, too.
    writer = csv.writer(lines, lineterminator=_CRLF)
    writer.writerows(_converted(rows, special.nested, _json_text))
    return "".join(lines.written).encode()


class _Lines:
    """Takes a line at a time, as a csv writer has them."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, line: str) -> None:
        self.written.append(line.removesuffix(_CRLF) + "\n")


def plain(value: Any) -> Any:
    """A value as JSON has it."""
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
            return {_key(k): plain(v) for k, v in value.items()}
        case list() | tuple():
            return [plain(v) for v in value]
        case _:
            return str(value)


def _key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(plain(value))


def _all_finite(rows: Sequence[Row], at: int) -> bool:
    # One that is not finite makes the sum so. Too many large ones do, too: then each is looked at.
    return math.isfinite(sum(filter(None, map(itemgetter(at), rows))))


def _converted(
    rows: Sequence[Row], positions: Sequence[int], convert: Callable[[Any], Any]
) -> Sequence[Row]:
    if not positions:
        return rows
    changed = [list(row) for row in rows]
    for row in changed:
        for at in positions:
            row[at] = convert(row[at])
    return changed


def _json_text(value: Any) -> str | None:
    return None if value is None else _encoder.encode(plain(value)).decode()


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
