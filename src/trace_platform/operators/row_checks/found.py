"""What a check found in one staged partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trace_platform.domain.errors import InvalidConfig
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
