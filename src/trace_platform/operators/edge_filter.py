"""An edge's filter as column expressions, which Spark pushes down to the files; no SQL is put
together."""

from __future__ import annotations

import difflib
import re
from decimal import Decimal
from functools import reduce
from operator import and_, ge, gt, le, lt, or_
from typing import TYPE_CHECKING, Any

from trace_platform.domain.errors import InvalidConfig
from trace_platform.wire.where import (
    Bound,
    OneOf,
    conditions,
    from_hex,
    whole_bound,
)

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_COMPARE = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
# Integers that go to Java as they are.
_LONG = range(-(2**63), 2**63)
_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def matches(where: dict[str, Any], schema: StructType) -> Column:
    """What a row has to meet. Raise InvalidConfig when the filter does not fit the columns."""
    fields = {field.name.lower(): field for field in schema}
    found = []
    for condition in conditions(where):
        field = fields.get(condition.column.lower())
        if field is None:
            raise InvalidConfig(
                f"where.{condition.column}: the input has no such column",
                hint=_instead_of(condition.column, schema.names),
            )
        found.append(_expression(condition, field.name, field.dataType))
    return reduce(and_, found)


def _instead_of(column: str, names: list[str]) -> str:
    near = difflib.get_close_matches(column, names, n=1)
    return f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"


def _expression(condition: OneOf | Bound, name: str, kind: DataType) -> Column:
    from pyspark.sql import functions as f

    values = condition.values if isinstance(condition, OneOf) else (condition.value,)
    for value in values:
        _check_kind(condition.column, value, kind)
    column = f.col(name)
    if isinstance(condition, OneOf):
        return _one_of(condition, column, kind)
    return _beyond(condition, column, kind)


def _check_kind(column: str, value: object, kind: DataType) -> None:
    fits = {str: ("string", "binary", "date", "timestamp", "timestamp_ntz"), bool: ("boolean",)}
    numbers = (*_INTEGER_BITS, "float", "double", "decimal")
    told = kind.simpleString()
    if re.split(r"[( ]", told)[0] not in fits.get(type(value), numbers):
        raise InvalidConfig(
            f"where.{column}: the column is {told}, and {value!r} is not",
            hint="compare it with values of its own kind",
        )


def _one_of(condition: OneOf, column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as f

    values = [v for v in condition.values if _is_possible(v, kind)]
    terms = []
    if _is_float(kind) and 0 in values:
        # Parquet's statistics tell -0.0 from 0.0, and a file with the other zero would be skipped.
        terms = [column.between(-0.0, 0.0)]
        values.remove(0)
    # In one list with a double, the others would be compared as doubles too.
    doubles = [value for value in values if isinstance(value, float)]
    others = [value for value in values if not isinstance(value, float)]
    for group in (others, doubles):
        literals = [_literal(condition.column, value, kind) for value in group]
        terms += [column.isin(literals)] if literals else []
    terms += [column.isNull()] if condition.or_null else []
    return reduce(or_, terms) if terms else f.lit(False)


def _beyond(condition: Bound, column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as f

    comparison, value = condition.comparison, condition.value
    limits = _limits(kind)
    if limits is not None and not isinstance(value, str):
        low, high = limits
        if not low <= value <= high:
            # Not left to Spark: it finds that a null, too, is smaller than a number too large.
            everything = (value > high) == (comparison in ("lt", "lte"))
            return column.isNotNull() if everything else f.lit(False)
        if _is_integer(kind) and isinstance(value, float):
            comparison, value = whole_bound(comparison, value)
    right = _COMPARE[comparison](column, _literal(condition.column, value, kind))
    # A NaN is greater than any number, but Parquet's statistics leave it out: said so, the
    # comparison is not pushed down to them.
    return right | f.isnan(column) if _is_float(kind) and comparison in ("gt", "gte") else right


def _is_possible(value: object, kind: DataType) -> bool:
    """Whether the column can have this value at all."""
    limits = _limits(kind)
    if limits is None or not isinstance(value, int | float):
        return True
    return limits[0] <= value <= limits[1] and not (_is_integer(kind) and isinstance(value, float))


def _is_integer(kind: DataType) -> bool:
    return kind.simpleString() in _INTEGER_BITS


def _is_float(kind: DataType) -> bool:
    return kind.simpleString() in ("float", "double")


def _limits(kind: DataType) -> tuple[int | Decimal, int | Decimal] | None:
    """The least and the greatest number that the column can hold; None: any."""
    told = kind.simpleString()
    if told in _INTEGER_BITS:
        half: int = 2 ** (_INTEGER_BITS[told] - 1)
        return -half, half - 1
    if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", told):
        digits, scale = (9,) * int(match[1]), -int(match[2])
        return Decimal((1, digits, scale)), Decimal((0, digits, scale))
    return None


def _literal(column: str, value: Any, kind: DataType) -> Column:
    from pyspark.sql import functions as f

    if kind.simpleString() == "binary":
        return f.lit(bytearray(from_hex(column, value)))
    if _is_float(kind):
        return f.lit(float(value))
    is_long = not isinstance(value, int) or value in _LONG
    return f.lit(value if is_long else Decimal(value))
