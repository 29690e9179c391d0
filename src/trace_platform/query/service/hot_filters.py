"""A statement's filters as conditions of Postgres: such that have the same meaning in both.

Both order bytes by their value, text by its bytes (here by COLLATE "C"), false before true and NaN
after every number, where it equals itself. What is not of the column's type is left to DuckDB: a
condition less is always right.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_platform.data.columns import Column
from trace_platform.query.protocol.messages import Filter

Value = str | int | float | bool

_COMPARISONS = ("=", ">", ">=", "<", "<=")
_BIGINT = range(-(2**63), 2**63)


def conditions(filters: Sequence[Filter], columns: Sequence[Column]) -> list[str]:
    """SQL that holds for every row that fulfils all filters. The child wrote them: of its words
    none becomes SQL but by a list of ours, of its values none but as digits."""
    by_name = {column["name"]: column for column in columns}
    found = [_condition(each, by_name[each.column]) for each in filters if each.column in by_name]
    return [condition for condition in found if condition is not None]


def _condition(given: Filter, column: Column) -> str | None:
    literals = [_literal(value, column["type"]) for value in given.values]
    known = [literal for literal in literals if literal is not None]
    if len(known) < len(literals):
        return None
    if given.comparison == "in":
        return f"{_operand(column)} IN ({', '.join(known)})" if known else "false"
    if given.comparison not in _COMPARISONS or len(known) != 1:
        return None
    return f"{_operand(column)} {given.comparison} {known[0]}"


def _operand(column: Column) -> str:
    """The value as the statement sees it: a numeric is text."""
    name = f'"{column["name"]}"'
    if column["type"] == "numeric":
        return f'{name}::text COLLATE "C"'
    return f'{name} COLLATE "C"' if column["type"] == "text" else name


def _literal(value: Value, kind: str) -> str | None:
    """None: it is not of the column's type, or none that Postgres can hold."""
    if kind == "boolean":
        return str(value).lower() if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if kind == "bigint":
        return _integer(value) if isinstance(value, int) else None
    if kind == "double precision":
        return _double(value) if isinstance(value, int | float) else None
    if not isinstance(value, str):
        return None
    return _bytes(value) if kind == "bytea" else _text(value)


def _integer(value: int) -> str:
    # One beyond the column's range compares as numeric, which has none.
    return f"{'bigint' if value in _BIGINT else 'numeric'} '{value:d}'"


def _double(value: int | float) -> str | None:
    if isinstance(value, int) and abs(value) > 2**53:
        return None
    return f"double precision '{float(value)!r}'"


def _bytes(value: str) -> str | None:
    try:
        raw = bytes.fromhex(value.removeprefix("0x"))
    except ValueError:
        return None
    return f"decode('{raw.hex()}', 'hex')" if value.startswith("0x") else None


def _text(value: str) -> str | None:
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        return None
    # Postgres has no text with a NUL in it.
    return None if b"\0" in raw else f"convert_from(decode('{raw.hex()}', 'hex'), 'UTF8')"
