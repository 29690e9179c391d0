"""What a check found in one staged partition."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trace_platform.domain.errors import InvalidConfig, InvalidQuery, TraceError
from trace_platform.wire.check import MAX_SAMPLE, SampleRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MAX_VALUE = 200


@dataclass(frozen=True, slots=True)
class Found:
    """How many rows are wrong, in words that quote no value: these may be personal."""

    failing: int
    message: str
    # Asked only when there are such rows.
    rows: Callable[[], DataFrame] | None = None


def need_columns(frame: DataFrame, columns: Sequence[str]) -> None:
    """Raise InvalidConfig for one that the rows do not have."""
    for column in columns:
        if column not in frame.columns:
            raise InvalidConfig(
                f"there is no column '{column}'; there are {', '.join(frame.columns)}"
            )


def without_values(error: TraceError) -> TraceError:
    """What Spark says of a row that fails a statement quotes the row. Of a statement that cannot be
    resolved it knows no row."""
    resolved = type(error.__cause__).__name__ not in ("AnalysisException", "ParseException")
    if not isinstance(error, InvalidQuery) or error.__cause__ is None or not resolved:
        return error
    condition = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", error.message)
    return InvalidQuery(
        f"it fails at a row: {condition[1] if condition else 'the Spark job failed'}"
    )


def sample_of(frame: DataFrame) -> list[SampleRow]:
    return [
        {name: _text(value) for name, value in row.asDict().items()}
        for row in frame.limit(MAX_SAMPLE).collect()
    ]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    shown = "0x" + bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)
    return shown if len(shown) <= _MAX_VALUE else shown[: _MAX_VALUE - 1] + "…"
