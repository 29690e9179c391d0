"""An edge's filter as column expressions, which Spark pushes down to the files; no SQL is put
together."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import reduce
from operator import and_, ge, gt, le, lt, or_
from typing import TYPE_CHECKING, Any

from trace_platform.wire.fitted_where import Limits, check_kind, fitted, from_hex, possible
from trace_platform.wire.where import Bound, OneOf

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

_COMPARE = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
# Integers that go to Java as they are.
_LONG = range(-(2**63), 2**63)
_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FLOATS = ("float", "double")
_TEXTS = ("string", "binary", "date", "timestamp", "timestamp_ntz")


def matches(where: dict[str, Any], schema: StructType) -> Column:
    """What a row has to meet. Raise InvalidConfig when the filter does not fit the columns."""
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    terms = [_expression(each, name, kinds[name]) for each, name in fitted(where, kinds)]
    return reduce(and_, terms)


def _expression(condition: OneOf | Bound, name: str, kind: str) -> Column:
    from pyspark.sql import functions as f

    check_kind(condition, kind, _takes(kind))
    if isinstance(condition, OneOf):
        return _one_of(condition, f.col(name), kind)
    return _beyond(condition, f.col(name), kind)


def _takes(kind: str) -> tuple[type, ...]:
    word = re.split(r"[( ]", kind)[0]
    if word in _TEXTS:
        return (str,)
    if word == "boolean":
        return (bool,)
    return (int, float) if word in (*_INTEGER_BITS, *_FLOATS, "decimal") else ()


def _limits(kind: str) -> Limits | None:
    if bits := _INTEGER_BITS.get(kind):
        return Limits.of_integer(bits)
    if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
        return Limits.of_decimal(int(match[1]), int(match[2]))
    return None


def _one_of(condition: OneOf, column: Column, kind: str) -> Column:
    from pyspark.sql import functions as f

    others, doubles = possible(condition, _limits(kind))
    terms = []
    if kind in _FLOATS and 0 in others:
        # Parquet's statistics tell -0.0 from 0.0, and a file with the other zero would be skipped.
        terms = [column.between(-0.0, 0.0)]
        others.remove(0)
    for group in (others, doubles):
        literals = [_literal(condition.column, value, kind) for value in group]
        terms += [column.isin(literals)] if literals else []
    terms += [column.isNull()] if condition.or_null else []
    return reduce(or_, terms) if terms else f.lit(False)


def _beyond(condition: Bound, column: Column, kind: str) -> Column:
    from pyspark.sql import functions as f

    limits = _limits(kind)
    bound = condition if limits is None else limits.judge(condition)
    if isinstance(bound, bool):
        return column.isNotNull() if bound else f.lit(False)
    right = _COMPARE[bound.comparison](column, _literal(bound.column, bound.value, kind))
    # A NaN is greater than any number, but Parquet's statistics leave it out: said so, the
    # comparison is not pushed down to them.
    nan_counts = kind in _FLOATS and bound.comparison in ("gt", "gte")
    return right | f.isnan(column) if nan_counts else right


def _literal(column: str, value: Any, kind: str) -> Column:
    from pyspark.sql import functions as f

    if kind == "binary":
        return f.lit(bytearray(from_hex(column, value)))
    if kind in _FLOATS:
        return f.lit(float(value))
    is_long = not isinstance(value, int) or value in _LONG
    return f.lit(value if is_long else Decimal(value))
