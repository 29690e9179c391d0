"""What a `schema` declares of a dataset's columns, held against what is committed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_platform.wire.manifest import ManifestColumn

_TEXT = r"(large_)?string(_view)?"
_BYTES = r"(large_)?binary(_view)?"
# A declared type, and the types of Arrow that are one.
_ARROW = {
    "float32": "float",
    "float64": "double",
    "string": _TEXT,
    "binary": rf"{_BYTES}|fixed_size_binary\[\d+\]",
    "date": r"date(32\[day\]|64\[ms\])",
    "timestamp": r"timestamp\[(s|ms|us|ns)(, tz=[^\]]+)?\]",
    # Text in files, or what the text would say.
    "json": rf"{_TEXT}|(large_|fixed_size_)?list<.*|struct<.*|map<.*",
}
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=\w+, ordered=\w+>")
# What a hot table can hold of them, see data/columns.py.
IN_TABLES = "bool, int64, float64, string, json, binary and decimal"
_IN_TABLES = re.compile(r"bool|int64|float64|string|json|binary(\(\d+\))?|decimal\(.*\)")

# By column: what `schema` says of it, its `type` above all.
Declared = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Misfit:
    """A column that is not what was declared."""

    column: str
    declared: str
    # None: there is no such column.
    committed: str | None

    def __str__(self) -> str:
        if self.committed is None:
            return f"column '{self.column}' ({self.declared}) is missing"
        return f"column '{self.column}' is {self.committed}, declared {self.declared}"


def misfits(declared: Declared, committed: Sequence[ManifestColumn]) -> Iterator[Misfit]:
    """In the order of the schema. Columns beyond it are none: readers were promised no others."""
    types = {column.name.lower(): column.type for column in committed}
    for name, column in declared.items():
        found = types.get(name.lower())
        if found is None or not fits(column["type"], found):
            yield Misfit(name, column["type"], found)


def fits(declared: str, arrow: str) -> bool:
    """Whether a column of this type of Arrow is of the declared type."""
    if match := _DICTIONARY.fullmatch(arrow):
        arrow = match[1]
    # No value so far: it may become one of any type.
    return arrow == "null" or re.fullmatch(_pattern(declared), arrow) is not None


def fits_table(declared: str) -> bool:
    """Whether a table of Postgres data can hold a column of this type."""
    return _IN_TABLES.fullmatch(declared) is not None


def _pattern(declared: str) -> str:
    if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", declared):
        return rf"decimal(32|64|128|256)?\({match[1]}, {match[2]}\)"
    if match := re.fullmatch(r"binary\((\d+)\)", declared):
        # Files seldom say how long: that is a promise about values.
        return rf"{_BYTES}|fixed_size_binary\[{match[1]}\]"
    return _ARROW.get(declared, re.escape(declared))
