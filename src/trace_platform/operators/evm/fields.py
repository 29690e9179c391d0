"""The fields of one kind of object that a node sends, read as columns.

A value that cannot be read is named: its field, the object that it is of, and what was sent.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trace_platform.domain.evm_hex import shown
from trace_platform.operators.evm.hex_columns import INT64_MAX, capped, integers


class Fields:
    """`place` names the object of a row: block 7, transaction 2 of block 7."""

    def __init__(self, rows: int, place: Callable[[int], str]) -> None:
        self._rows = rows
        self._place = place
        self._above: dict[int, dict[str, str]] = defaultdict(dict)

    def read(
        self,
        field: str,
        reader: Callable[..., Any],
        values: Sequence[Any],
        *arguments: Any,
    ) -> Any:
        """What `reader` makes of the values, one of each row. Raise ValueError."""
        try:
            return reader(values, *arguments)
        except ValueError as error:
            raise self._named(field, reader, values, arguments) or error from None

    def amounts(self, column: str, field: str, values: Sequence[str | None]) -> pa.Array:
        """Numbers that have no bound: of those above the largest int64 `above_int64` has the exact
        value."""
        found = self.read(field, capped, values)
        if (pc.max(found).as_py() or 0) == INT64_MAX:
            for row, text in enumerate(values):
                number = 0 if text is None else integers([text])[0]
                if number > INT64_MAX:
                    self._above[row][column] = str(number)
        return found

    def above_int64(self) -> pa.Array:
        """Of each row, as JSON by column; null where all amounts fit. After they were read."""
        if not self._above:
            return pa.nulls(self._rows, pa.string())
        told = [self._above.get(row) for row in range(self._rows)]
        return pa.array([json.dumps(each) if each else None for each in told], pa.string())

    def _named(
        self,
        field: str,
        reader: Callable[..., Any],
        values: Sequence[Any],
        arguments: Sequence[Any],
    ) -> ValueError | None:
        """The first value that cannot be read by itself."""
        for row, value in enumerate(values):
            try:
                reader([value], *arguments)
            except ValueError as error:
                said = f"{field} of {self._place(row)} is {shown(value)}: {error}"
                return ValueError(said)
        return None
