"""Arrow columns as columns of a hot table, and back."""

from __future__ import annotations

from typing import TypedDict

import pyarrow as pa

from trace_platform.domain.errors import InvalidConfig

# The type of a column, what COPY calls it, and what Arrow reads it as. A numeric is read as text:
# a double would round it, and Arrow's decimals end before 2**256.
_TYPES: dict[str, tuple[str, pa.DataType]] = {
    "bigint": ("int8", pa.int64()),
    "bytea": ("bytea", pa.binary()),
    "text": ("text", pa.string()),
    "double precision": ("float8", pa.float64()),
    "boolean": ("bool", pa.bool_()),
    "numeric": ("numeric", pa.string()),
}


class Column(TypedDict):
    name: str
    type: str
    nullable: bool


def columns_of(schema: pa.Schema) -> list[Column]:
    return [
        Column(name=field.name, type=_postgres_type(field), nullable=field.nullable)
        for field in schema
    ]


def schema_of(columns: list[Column]) -> pa.Schema:
    """As the columns are read."""
    return pa.schema(
        pa.field(each["name"], _TYPES[each["type"]][1], nullable=each["nullable"])
        for each in columns
    )


def copy_types(schema: pa.Schema) -> list[str]:
    return [_TYPES[_postgres_type(field)][0] for field in schema]


def select_list(columns: list[Column]) -> str:
    return ", ".join(
        f'"{each["name"]}"::text' if each["type"] == "numeric" else f'"{each["name"]}"'
        for each in columns
    )


def _postgres_type(field: pa.Field) -> str:
    if pa.types.is_decimal(field.type):
        return "numeric"
    for name, (_, kind) in _TYPES.items():
        if field.type == kind:
            return name
    raise InvalidConfig(
        f"column {field.name!r} is {field.type}: a hot table cannot hold it",
        hint="int64, binary, string, double, bool and decimals can be held",
    )
