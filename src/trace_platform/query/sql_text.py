"""Names and values as SQL, for statements that take no parameters."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def listed(values: Iterable[str]) -> str:
    return "[" + ", ".join(map(text, values)) + "]"
