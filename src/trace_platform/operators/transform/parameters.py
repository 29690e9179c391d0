"""Typed parameters of Spark SQL: `:name` stands for a literal of its type, and nothing else."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import (
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
    Tag,
    model_validator,
)

from trace_platform.operators.contract import OperatorConfig

if TYPE_CHECKING:
    from pyspark.sql import Column

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Type = Literal["int64", "float64", "bool", "string", "binary", "decimal", "date", "timestamp"]
Plain = StrictBool | StrictInt | StrictFloat | StrictStr
# Of the task: its first and its last block.
START, END = "start", "end"

_HEX = re.compile(r"(?:0x)?((?:[0-9a-fA-F]{2})*)")


class Typed(OperatorConfig):
    type: Type = Field(description="What the value is to Spark.")
    value: Plain = Field(
        description="The value: bytes as hex, decimals, dates and times as text, all in quotes."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        literal(self)
        return self


def _form(given: object) -> str:
    return "typed" if isinstance(given, dict | Typed) else "plain"


Parameter = Annotated[
    Annotated[Plain, Tag("plain")] | Annotated[Typed, Tag("typed")], Discriminator(_form)
]


def columns(given: Mapping[str, Plain | Typed]) -> dict[str, Column]:
    """As Spark takes them. A number of a task's own is as wide as a column of blocks."""
    from pyspark.sql import functions as f

    return {name: f.expr(literal(each)) for name, each in given.items()}


def literal(given: Plain | Typed) -> str:
    """In Spark SQL. Raise ValueError when the value is none of its type."""
    kind, value = (given.type, given.value) if isinstance(given, Typed) else (_kind(given), given)
    match kind:
        case "bool" if isinstance(value, bool):
            return str(value).lower()
        case "int64" if isinstance(value, int) and not isinstance(value, bool):
            if -(2**63) < value < 2**63:
                return f"{value}L"
        case "float64" if isinstance(value, int | float) and not isinstance(value, bool):
            return f"{float(value)!r}D"
        case "string" if isinstance(value, str):
            return _quoted(value)
        case _ if isinstance(value, str):
            return _of_text(kind, value)
    raise ValueError(f"{value!r} is no {kind}{_cure(kind)}")


def _of_text(kind: str, value: str) -> str:
    try:
        if kind == "binary" and (found := _HEX.fullmatch(value)):
            return f"X'{found[1]}'"
        if kind == "decimal" and (number := Decimal(value)).is_finite():
            return f"{number:f}BD"
        if kind == "date":
            return f"DATE'{datetime.date.fromisoformat(value)}'"
        if kind == "timestamp":
            moment = datetime.datetime.fromisoformat(value)
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
            return f"TIMESTAMP'{zoned.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"
    except (InvalidOperation, ValueError):
        pass
    raise ValueError(f"{value!r} is no {kind}{_cure(kind)}")


def _kind(value: Plain) -> Type:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    return "float64" if isinstance(value, float) else "string"


def _cure(kind: str) -> str:
    cures = {
        "int64": ": a whole number of 64 bits; a larger one is a decimal, in quotes",
        "binary": ': write hex in quotes, such as "0xa9059cbb"',
        "decimal": ": write digits in quotes, at most 38 of them",
        "date": ': write "2026-01-31"',
        "timestamp": ': write "2026-01-31 12:00:00", of UTC',
    }
    return cures.get(kind, "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
