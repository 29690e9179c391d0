"""A filter on an input as SQL for a view (wire/where.py says what it means).

It finds the rows that Spark finds (operators/io/edge_filter.py). Every value is written as a
constant of the column's own type, so that no digit is lost and the condition reaches the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trace_platform.sql.sql_text import quoted, text
from trace_platform.wire.fitted_where import Limits, check_kind, fitted, from_hex, possible
from trace_platform.wire.where import Bound, Comparison, OneOf

_SYMBOL: dict[Comparison, str] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_FLOATS = ("FLOAT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
_TEXTS = ("VARCHAR", "BLOB", *_TIMES, "TIMESTAMP WITH TIME ZONE")


def to_condition(where: Mapping[str, Any], columns: Mapping[str, str], table: str) -> str:
    """What a row of `table` has to meet; `columns` are types by name. Raise InvalidConfig for a
    filter that does not fit them."""
    terms = [
        _term(condition, f"{table}.{quoted(name)}", columns[name])
        for condition, name in fitted(dict(where), columns)
    ]
    return " AND ".join(terms) or "true"


def _term(condition: OneOf | Bound, column: str, kind: str) -> str:
    check_kind(condition, kind, _takes(kind))
    if isinstance(condition, OneOf):
        return _one_of(condition, column, kind)
    return _beyond(condition, column, kind)


def _takes(kind: str) -> tuple[type, ...]:
    if kind in _TEXTS:
        return (str,)
    if kind == "BOOLEAN":
        return (bool,)
    return (int, float) if kind in _FLOATS or _limits(kind) is not None else ()


def _limits(kind: str) -> Limits | None:
    if bits := _INTEGER_BITS.get(kind):
        return Limits.of_integer(bits)
    if bits := _INTEGER_BITS.get(kind.removeprefix("U")):
        return Limits.of_integer(bits, is_signed=False)
    if match := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind):
        return Limits.of_decimal(int(match[1]), int(match[2]))
    return None


def _one_of(condition: OneOf, column: str, kind: str) -> str:
    terms = [
        f"{column} IN ({', '.join(_literal(condition.column, value, kind) for value in group)})"
        for group in possible(condition, _limits(kind))
        if group
    ]
    terms += [f"{column} IS NULL"] if condition.or_null else []
    return f"({' OR '.join(terms)})" if terms else "false"


def _beyond(condition: Bound, column: str, kind: str) -> str:
    limits = _limits(kind)
    bound = condition if limits is None else limits.judge(condition)
    if isinstance(bound, bool):
        return f"{column} IS NOT NULL" if bound else "false"
    right = f"{column} {_SYMBOL[bound.comparison]} {_literal(bound.column, bound.value, kind)}"
    # A NaN is greater than any number, but Parquet's statistics leave it out, and DuckDB believes
    # them even when it is asked for NaN: of its text they tell nothing.
    nan_counts = kind in _FLOATS and bound.comparison in ("gt", "gte")
    return f"({right} OR CAST({column} AS VARCHAR) = 'nan')" if nan_counts else right


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
