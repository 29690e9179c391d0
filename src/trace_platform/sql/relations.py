"""What a statement reads, by name, and the columns that it finds there."""

from __future__ import annotations

import msgspec


class Column(msgspec.Struct, frozen=True):
    """Name and type as DuckDB says them; a type that nobody can tell before it runs is empty."""

    name: str
    type: str


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A relation of the statement. `view` is what it has to be called when the statement runs."""

    view: str
    name: str
    version: str | None = None
    at: str | None = None
    # Where it is named first, for an error.
    line: int | None = None
    column: int | None = None


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset in the catalog of a caller, under the name that the caller has for it."""

    name: str
    columns: list[Column]
    # Columns whose values the caller does not see.
    masked: list[str] = []
    comment: str | None = None
    # None: not for this caller.
    rows: int | None = None
