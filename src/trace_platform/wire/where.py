"""Filters on an input: which rows of a dataset a job reads.

    where: { severity: critical, chain_id: { in: [1, 10] }, block_number: { gte: 100, lt: 200 } }

`where_text` reads the same from a condition in SQL. All conditions have to hold. As in SQL, a null
is equal to nothing and lies in no range: `null` is the one condition that matches it. Text is
ordered by code point.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from trace_platform.domain.errors import InvalidConfig
from trace_platform.wire.suggest import instead

MAX_COLUMNS = 32
MAX_VALUES = 1_000
MAX_TEXT = 1_000
MAX_NUMBER = 2**256

Path = tuple[str | int, ...]
Problem = tuple[Path, str]
Scalar = str | int | float | bool | None
Comparison = Literal["gt", "gte", "lt", "lte"]

_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_OPERATORS = ("in", "gt", "gte", "lt", "lte")
_KINDS = {str: "text", bool: "true or false", int: "numbers", float: "numbers"}
_EXAMPLE = "where: { severity: critical, block_number: { gte: 100, lt: 200 } }"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The column has one of the values or, with `or_null`, none at all."""

    column: str
    values: tuple[str | int | float | bool, ...]
    or_null: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """The column lies on the right side of a value."""

    column: str
    comparison: Comparison
    value: str | int | float


def problems(where: Any) -> Iterator[Problem]:
    """Everything that is wrong with a filter: where in it, and what would be right."""
    if not isinstance(where, dict):
        yield (), f"a filter is a mapping of columns or a condition in SQL, such as {_EXAMPLE}"
    else:
        yield from _too_much(where)
        for column, condition in where.items():
            if not isinstance(column, str) or not _COLUMN.fullmatch(column):
                yield (str(column),), "a column is letters, digits and '_', not a digit first"
            yield from _condition_problems((str(column),), condition)


def normalised(where: Any) -> dict[str, Any]:
    """The one way to write this filter: equal filters are equal. Raise InvalidConfig."""
    found = [f"{'.'.join(map(str, ('where', *path)))}: {said}" for path, said in problems(where)]
    if found:
        raise InvalidConfig("; ".join(found))
    return {column: _normal_condition(where[column]) for column in sorted(where)}


def conditions(where: Any) -> Iterator[OneOf | Bound]:
    """What has to hold, for those who evaluate it. Raise InvalidConfig."""
    for column, condition in normalised(where).items():
        if not isinstance(condition, dict):
            values = () if condition is None else (condition,)
            yield OneOf(column, values, or_null=condition is None)
        elif "in" in condition:
            values = tuple(value for value in condition["in"] if value is not None)
            yield OneOf(column, values, or_null=None in condition["in"])
        else:
            for comparison, value in condition.items():
                yield Bound(column, comparison, value)


def _too_much(where: dict[Any, Any]) -> Iterator[Problem]:
    if len(where) > MAX_COLUMNS:
        yield (), f"{len(where)} columns are too many, {MAX_COLUMNS} at most"
    count = sum(_count(condition) for condition in where.values())
    if count > MAX_VALUES:
        yield (), f"{count:,} values are too many, {MAX_VALUES:,} at most"
    spelled: dict[str, str] = {}
    for column in map(str, where):
        # DuckDB and Spark do not tell them apart.
        other = spelled.setdefault(column.lower(), column)
        if other != column:
            yield (column,), f"differs from '{other}' only in upper and lower case"


def _count(condition: Any) -> int:
    if not isinstance(condition, dict):
        return 1
    return sum(len(v) if isinstance(v, list) else 1 for v in condition.values())


def _condition_problems(path: Path, condition: Any) -> Iterator[Problem]:
    if isinstance(condition, list):
        yield path, "write a list of values as { in: [...] }"
    elif not isinstance(condition, dict):
        yield from _scalar_problems(path, condition)
    elif unknown := [key for key in condition if key not in _OPERATORS]:
        for key in unknown:
            yield (*path, str(key)), "unknown condition" + instead(str(key), _OPERATORS)
    elif not condition:
        yield path, f"say which values: a value, or one of {', '.join(_OPERATORS)}"
    elif "in" in condition:
        if len(condition) > 1:
            yield path, "'in' stands alone: give the values that are in the range"
        yield from _list_problems((*path, "in"), condition["in"])
    else:
        yield from _range_problems(path, condition)


def _list_problems(path: Path, values: Any) -> Iterator[Problem]:
    if not isinstance(values, list):
        yield path, "needs a list, such as { in: [1, 10] }"
    elif not values:
        yield path, "an empty list matches nothing: name a value, or leave the column out"
    else:
        found = [p for i, value in enumerate(values) for p in _scalar_problems((*path, i), value)]
        yield from found or _mixed(path, [value for value in values if value is not None])


def _range_problems(path: Path, bounds: dict[str, Any]) -> Iterator[Problem]:
    found = [p for key, value in bounds.items() for p in _scalar_problems((*path, key), value)]
    for key, value in bounds.items():
        if value is None or isinstance(value, bool):
            found.append(((*path, key), "a range has numbers or text as its ends"))
    for one, other in (("gt", "gte"), ("lt", "lte")):
        if one in bounds and other in bounds:
            found.append((path, f"give {one} or {other}, not both"))
    found = found or list(_mixed(path, list(bounds.values())))
    yield from found or _empty_range(path, bounds)


def _empty_range(path: Path, bounds: dict[str, Any]) -> Iterator[Problem]:
    low = next((key for key in ("gt", "gte") if key in bounds), None)
    high = next((key for key in ("lt", "lte") if key in bounds), None)
    if low is None or high is None:
        return
    touching = bounds[low] == bounds[high] and (low, high) != ("gte", "lte")
    if touching or bounds[low] > bounds[high]:
        said = f"{low} {bounds[low]!r} and {high} {bounds[high]!r}"
        yield path, f"nothing can match {said}: the lower end comes first"


def _mixed(path: Path, values: list[Any]) -> Iterator[Problem]:
    kinds = dict.fromkeys(_KINDS[type(value)] for value in values)
    if len(kinds) > 1:
        yield path, f"mixes {' and '.join(kinds)}: use one kind of value"


def _scalar_problems(path: Path, value: Any) -> Iterator[Problem]:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            yield path, f"{len(value):,} characters are too many, {MAX_TEXT:,} at most"
        if re.search("[\0\ud800-\udfff]", value):
            yield path, "has a character that no database stores"
    elif not isinstance(value, int | float):
        yield (
            path,
            f"is no single value: use text (a date in quotes), a number or null{_found(value)}",
        )
    elif not -MAX_NUMBER <= value <= MAX_NUMBER:  # nor is a NaN
        yield path, "numbers lie between -2^256 and 2^256"


def _found(value: Any) -> str:
    return "" if isinstance(value, dict | list) else f" (found {value})"


def _normal_condition(condition: Any) -> Any:
    if not isinstance(condition, dict):
        return _normal(condition)
    if "in" not in condition:
        return {key: _normal(condition[key]) for key in _OPERATORS if key in condition}
    # Of one kind, so that they can be sorted.
    given: set[Any] = {_normal(value) for value in condition["in"]}
    values = [*sorted(given - {None}), *(given & {None})]
    return values[0] if len(values) == 1 else {"in": values}


def _normal(value: Scalar) -> Scalar:
    # jsonb keeps no difference between 1e3 and 1000 either.
    return int(value) if isinstance(value, float) and value.is_integer() else value
