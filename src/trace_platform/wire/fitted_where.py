"""A filter and the columns that it is for: what those who evaluate it have to agree on.

Spark (operators/io/edge_filter.py) and DuckDB (query/protocol/where_sql.py) find the same rows.
What differs is how they write a value and what they call a type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from trace_platform.domain.alike import meant
from trace_platform.domain.errors import InvalidConfig
from trace_platform.wire.where import Bound, OneOf, conditions


@dataclass(frozen=True, slots=True)
class Limits:
    """The least and the greatest number that a column can hold, and whether only whole ones."""

    low: int | Decimal
    high: int | Decimal
    is_whole: bool

    @classmethod
    def of_integer(cls, bits: int, *, is_signed: bool = True) -> Limits:
        if not is_signed:
            return cls(0, 2**bits - 1, is_whole=True)
        return cls(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, is_whole=True)

    @classmethod
    def of_decimal(cls, precision: int, scale: int) -> Limits:
        digits = (9,) * precision
        return cls(Decimal((1, digits, -scale)), Decimal((0, digits, -scale)), is_whole=False)

    def can_hold(self, value: Any) -> bool:
        """A filter writes whole numbers as integers: a double has a fraction."""
        return self.low <= value <= self.high and not (self.is_whole and isinstance(value, float))

    def judge(self, bound: Bound) -> Bound | bool:
        """The bound as the column is compared with it; else whether all numbers meet it, or none.

        It is not left to the engine: Spark finds that a null, too, is smaller than a number too
        large, and would cast a column of integers to compare it with a double.
        """
        value: Any = bound.value
        is_lower = bound.comparison in ("gt", "gte")
        if not self.low <= value <= self.high:
            return bool(value < self.low) == is_lower
        if not self.is_whole or isinstance(value, int):
            return bound
        if is_lower:
            return replace(bound, comparison="gt", value=math.floor(value))
        return replace(bound, comparison="lt", value=math.ceil(value))


def fitted(where: Any, columns: Collection[str]) -> Iterator[tuple[OneOf | Bound, str]]:
    """What has to hold, each with its column. Raise InvalidConfig when there is no such column."""
    known = {name.lower(): name for name in columns}
    for condition in conditions(where):
        name = known.get(condition.column.lower())
        if name is None:
            raise InvalidConfig(
                f"where.{condition.column}: the input has no such column",
                hint=meant(condition.column, columns) or f"it has {', '.join(columns)}",
            )
        yield condition, name


def check_kind(condition: OneOf | Bound, kind: str, takes: Sequence[type]) -> None:
    """Raise InvalidConfig for a value that is of none of the types that a column of this kind
    takes."""
    for value in condition.values if isinstance(condition, OneOf) else (condition.value,):
        if type(value) not in takes:
            raise InvalidConfig(
                f"where.{condition.column}: the column is {kind}, and {value!r} is not",
                hint="compare it with values of its own kind",
            )


def possible(condition: OneOf, limits: Limits | None) -> tuple[list[Any], list[float]]:
    """The values that the column can have at all, doubles apart: in one list with a double, the
    others would be compared as doubles too."""
    values = [v for v in condition.values if limits is None or limits.can_hold(v)]
    doubles = [value for value in values if isinstance(value, float)]
    return [value for value in values if not isinstance(value, float)], doubles


def from_hex(column: str, value: object) -> bytes:
    """The bytes that a filter on a binary column means."""
    if isinstance(value, str) and re.fullmatch(r"0x([0-9A-Fa-f]{2})*", value):
        return bytes.fromhex(value[2:])
    raise InvalidConfig(
        f"where.{column}: the column holds bytes, and {value!r} is not hex",
        hint="write bytes in quotes, as '0x' and two digits for each",
    )
