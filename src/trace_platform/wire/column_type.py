"""The type of a column, as Arrow names it: one name, whoever wrote the file and whoever says it."""

from __future__ import annotations

import re

# What a writer was given, and what its file says of it.
_STORED = {
    # What Spark wrote until it wrote microseconds: a moment, which Arrow takes for nanoseconds.
    "timestamp[ns]": "timestamp[us, tz=UTC]",
    "timestamp[s]": "timestamp[ms]",
    "time32[s]": "time32[ms]",
    "date64[ms]": "date32[day]",
}
# The names that a writer gives to what is in a list or a map.
_IN_LIST = re.compile(r"list<[^<>:]+: ")
_IN_MAP = re.compile(r" \('[^<>]*'\)(?=>)")


def stored_name(kind: str) -> str:
    """The name by which types are compared: those that are stored alike have the same one. What is
    within a column may be null or not as engines please, like the column itself."""
    kind = without_inner_names(kind).replace(" not null", "")
    for given, stored in _STORED.items():
        kind = kind.replace(given, stored)
    return kind


def without_inner_names(kind: str) -> str:
    return _IN_MAP.sub("", _IN_LIST.sub("list<element: ", kind))
