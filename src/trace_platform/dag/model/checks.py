"""Checks as a DAG file says them: durations with a unit, and what is wrong where it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from trace_platform.dag.model.fields import DagModel, Duration, Path, chosen, raise_all, unknown
from trace_platform.wire import check_spec as spec


class Freshness(spec.Freshness):
    # In seconds.
    max_age: Duration = Field(description="How old the newest row may be: 15m, 1d.")


CHECKS: dict[str, type[spec.CheckModel]] = {
    "not_null": spec.NotNull,
    "unique": spec.Unique,
    "range": spec.Range,
    "accepted_values": spec.AcceptedValues,
    "row_count": spec.RowCount,
    "freshness": Freshness,
    "foreign_key": spec.ForeignKey,
    "gaps": spec.Gaps,
    "sql": spec.Sql,
    "drift": spec.Drift,
    "eth_call": spec.EthCall,
}
_Any = (
    spec.NotNull
    | spec.Unique
    | spec.Range
    | spec.AcceptedValues
    | spec.RowCount
    | Freshness
    | spec.ForeignKey
    | spec.Gaps
    | spec.Sql
    | spec.Drift
    | spec.EthCall
)


def _as_its_kind(value: Any) -> Any:
    if isinstance(value, spec.CheckModel):
        return value
    if not isinstance(value, dict):
        raise ValueError("write it as a mapping, such as { kind: not_null, columns: [address] }")
    return chosen(value, check_model)


Check = Annotated[Annotated[_Any, Field(discriminator="kind")], BeforeValidator(_as_its_kind)]


class _Unknown(DagModel):
    """A check of no known kind: only its kind is worth an error."""

    model_config = ConfigDict(extra="ignore")
    kind: str

    @field_validator("kind")
    @classmethod
    def _is_known(cls, value: str) -> str:
        raise unknown("there is no such check", value, tuple(CHECKS))


def check_model(value: Any) -> type[BaseModel]:
    """The one of its kind."""
    kind = value.get("kind") if isinstance(value, dict) else None
    return CHECKS.get(kind, _Unknown) if isinstance(kind, str) else _Unknown


def refuse_same_names(checks: Sequence[spec.CheckModel]) -> None:
    """Raise for each that is called like one before it: its results would be another's."""
    raise_all("checks", _same_names(checks))


def _same_names(
    checks: Sequence[spec.CheckModel],
) -> Iterator[tuple[Path, str | PydanticCustomError]]:
    seen: set[tuple[object, str]] = set()
    for index, check in enumerate(checks):
        if (check.output, check.label) in seen:
            said = f"a check before it is called '{check.label}' too: give one of them a name"
            yield (index,), said
        seen.add((check.output, check.label))
