"""A filter on an input as SQL for a view (wire/where.py says what it means).

It finds the rows that Spark finds (operators/edge_filter.py). Every value is written as a constant
of the column's own type, so that no digit is lost and the condition reaches the files.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from trace_platform.domain.errors import InvalidConfig
from trace_platform.query.sql_text import quoted, text
from trace_platform.wire.where import (
    Bound,
    Comparison,
    OneOf,
    conditions,
    from_hex,
    whole_bound,
)

_SYMBOL: dict[Comparison, str] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_FLOATS = ("FLOAT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
_TEXTS = ("VARCHAR", "BLOB", *_TIMES, "TIMESTAMP WITH TIME ZONE")


def to_condition(where: Mapping[str, Any], columns: Mapping[str, str], table: str) -> str:
    """What a row of `table` has to meet; `columns` are types by name. Raise InvalidConfig for a
    filter that does not fit them."""
    known = {name.lower(): name for name in columns}
    terms = []
    for condition in conditions(dict(where)):
        name = known.get(condition.column.lower())
        if name is None:
            raise InvalidConfig(
                f"where.{condition.column}: the input has no such column",
                hint=_instead_of(condition.column, list(columns)),
            )
        terms.append(_term(condition, f"{table}.{quoted(name)}", columns[name]))
    return " AND ".join(terms) or "true"


def _instead_of(column: str, names: list[str]) -> str:
    near = difflib.get_close_matches(column, names, n=1)
    return f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"


def _term(condition: OneOf | Bound, column: str, kind: str) -> str:
    for value in condition.values if isinstance(condition, OneOf) else (condition.value,):
        _check_kind(condition.column, value, kind)
    if isinstance(condition, OneOf):
        return _one_of(condition, column, kind)
    return _beyond(condition, column, kind)


def _check_kind(column: str, value: object, kind: str) -> None:
    fits = {str: kind in _TEXTS, bool: kind == "BOOLEAN"}
    if not fits.get(type(value), kind in _FLOATS or _limits(kind) is not None):
        raise InvalidConfig(
            f"where.{column}: the column is {kind}, and {value!r} is not",
            hint="compare it with values of its own kind",
        )


def _one_of(condition: OneOf, column: str, kind: str) -> str:
    values = [value for value in condition.values if _is_possible(value, kind)]
    # In one list with a double, the others would be compared as doubles too.
    doubles = [value for value in values if isinstance(value, float)]
    others = [value for value in values if not isinstance(value, float)]
    terms = [
        f"{column} IN ({', '.join(_literal(condition.column, value, kind) for value in group)})"
        for group in (others, doubles)
        if group
    ]
    terms += [f"{column} IS NULL"] if condition.or_null else []
    return f"({' OR '.join(terms)})" if terms else "false"


def _beyond(condition: Bound, column: str, kind: str) -> str:
    comparison, value = condition.comparison, condition.value
    limits = _limits(kind)
    if limits is not None and not isinstance(value, str):
        low, high = limits
        if not low <= value <= high:
            everything = (value > high) == (comparison in ("lt", "lte"))
            return f"{column} IS NOT NULL" if everything else "false"
        if _is_integer(kind) and isinstance(value, float):
            comparison, value = whole_bound(comparison, value)
    right = f"{column} {_SYMBOL[comparison]} {_literal(condition.column, value, kind)}"
    # A NaN is greater than any number, but Parquet's statistics leave it out, and DuckDB believes
    # them even when it is asked for NaN: of its text they tell nothing.
    nan_counts = kind in _FLOATS and comparison in ("gt", "gte")
    return f"({right} OR CAST({column} AS VARCHAR) = 'nan')" if nan_counts else right


def _is_possible(value: object, kind: str) -> bool:
    """Whether the column can have this value at all."""
    limits = _limits(kind)
    if limits is None or not isinstance(value, int | float):
        return True
    return limits[0] <= value <= limits[1] and not (_is_integer(kind) and isinstance(value, float))


def _is_integer(kind: str) -> bool:
    return kind in _INTEGER_BITS or kind.removeprefix("U") in _INTEGER_BITS


def _limits(kind: str) -> tuple[int | Decimal, int | Decimal] | None:
    """The least and the greatest number that the column can hold; None: it is no such column."""
    if bits := _INTEGER_BITS.get(kind):
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if bits := _INTEGER_BITS.get(kind.removeprefix("U")):
        return 0, 2**bits - 1
    if match := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind):
        digits, scale = (9,) * int(match[1]), -int(match[2])
        return Decimal((1, digits, scale)), Decimal((0, digits, scale))
    return None


def _literal(column: str, value: Any, kind: str) -> str:
    if kind == "BLOB":
        return f"from_hex('{from_hex(column, value).hex()}')"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return text(value) if kind == "VARCHAR" else f"CAST({text(value)} AS {kind})"
    if kind in _FLOATS or isinstance(value, float):
        return f"CAST('{float(value)!r}' AS DOUBLE)"
    return f"CAST('{value:d}' AS {kind})"
