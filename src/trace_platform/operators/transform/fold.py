"""`mode: fold`: results since the first block, kept as partial results for each range.

    by: [token, holder]
    values: { balance: sum(delta), transfers: count(), last_seen: last(timestamp) }

A range that is rewritten replaces its partial results; readers merge those of all ranges.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

from pydantic import AfterValidator, Field, model_validator

from trace_platform.domain.alike import instead
from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators.contract import OperatorConfig
from trace_platform.operators.statement import Folded
from trace_platform.operators.transform.column_name import ColumnName
from trace_platform.wire.manifest import Merge

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

Aggregate = Literal["sum", "count", "min", "max", "avg", "first", "last", "count_distinct"]

_CALL = re.compile(
    r"(sum|count|min|max|avg|first|last|count_distinct)\(\s*([A-Za-z_][A-Za-z0-9_]*|\*)?\s*\)"
)
# Of columns that an error names.
_SHOWN = 10
_PLACES = ("block_number", "transaction_index", "log_index")


def _call(said: str) -> str:
    if _CALL.fullmatch(said) is None:
        name = said.partition("(")[0].strip()
        cure = instead(name, get_args(Aggregate), _SHOWN, "there are")
        raise ValueError(f"{said!r} is no aggregate of a column, such as sum(amount); {cure}")
    return said


Call = Annotated[
    str, AfterValidator(_call), Field(json_schema_extra={"pattern": rf"^{_CALL.pattern}$"})
]


class Fold(OperatorConfig):
    by: list[ColumnName] = Field(
        default=[],
        max_length=32,
        description="Columns of the statement that are the key; without them there is one row.",
    )
    values: dict[ColumnName, Call] = Field(
        min_length=1,
        max_length=256,
        description="By column: sum(c), count(), count(c), min(c), max(c), avg(c), first(c), "
        "last(c) or count_distinct(c) of a column of the statement.",
    )

    @model_validator(mode="after")
    def _own_names(self) -> Fold:
        names = [name.lower() for name in [*self.by, *self.values]]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two columns would have the name {name!r}: rename one")
        for name, call in self.values.items():
            kind, column = parsed(call)
            if column is None and kind != "count":
                raise ValueError(f"values: {name}: {kind} takes a column, such as {kind}(amount)")
        return self

    @property
    def needed(self) -> list[tuple[str, str]]:
        """Those that it needs of the statement, each with where it says so."""
        named = [(column, "by") for column in self.by]
        for call in self.values.values():
            kind, column = parsed(call)
            if column is not None:
                named.append((column, "values"))
            if kind in ("first", "last"):
                named.append((_PLACES[0], "values"))
        return named

    @property
    def results(self) -> dict[str, Folded]:
        """What each of its values is, of which column of the statement."""
        return {name: Folded(call, parsed(call)[1]) for name, call in self.values.items()}


def parsed(call: str) -> tuple[Aggregate, str | None]:
    """The aggregate and its column; None of count(), which counts rows."""
    found = _CALL.fullmatch(call)
    assert found is not None, "a config says it so"
    column = found[2]
    return cast(Aggregate, found[1]), None if column in (None, "*") else column


def folded(frame: DataFrame, fold: Fold) -> DataFrame:
    """The partial results of these rows. Raise InvalidConfig for a column that they do not have, or
    that cannot be added up exactly."""
    from trace_platform.operators.io import partials

    for column, where in fold.needed:
        if column not in frame.columns:
            raise InvalidConfig(
                f"fold.{where}: the statement has no column {column}",
                hint=instead(column, frame.columns, _SHOWN, "it has"),
            )
    values = {name: _value(frame, call) for name, call in fold.values.items()}
    return partials.from_rows(frame, fold.by, values)


def _value(frame: DataFrame, call: str) -> tuple[Merge, Column]:
    from pyspark.sql import functions as f

    from trace_platform.operators.io.partials import at_position

    kind, name = parsed(call)
    if name is None:
        return "count", f.lit(1)
    column, of = f.col(f"`{name}`"), frame.schema[name].dataType
    match kind:
        case "sum" | "avg":
            exact = _exact(of, call)
            if exact is None:
                return ("sum_exact" if kind == "sum" else "avg_exact"), column
            return kind, column.cast(exact)
        case "first" | "last":
            places = [place for place in _PLACES if place in frame.columns]
            return kind, at_position(places, column)
        case _:
            return kind, column


def _exact(of: DataType, call: str) -> str | None:
    """As what it is added up; None: as decimal text, however long."""
    match of.typeName():
        case "string":
            return None
        case "byte" | "short" | "integer" | "long":
            return "decimal(38,0)"
        case "decimal":
            return f"decimal(38,{of.scale})"
    raise InvalidConfig(
        f"{call}: a column of type {of.simpleString()} cannot be added up exactly",
        hint="what rows add up to must not depend on their order: cast it to a decimal, such as"
        " cast(price as decimal(38, 18)), or write numbers of 256 bits as text",
    )
