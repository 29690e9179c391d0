"""What the columns of some rows are made of: the lineage that follows from a statement, or from
what an operator does."""

from __future__ import annotations

import msgspec


class Origin(msgspec.Struct, frozen=True, order=True):
    """A column of something that is read. An input of a job is named by its number."""

    source: str
    column: str


class DerivedColumn(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    # As queries name it; empty where nobody can tell.
    type: str = ""
    # Whose values it is computed from.
    origins: list[Origin] = []
    # Equal of two versions: computed the same way from the same. It is no text for people.
    meaning: str = ""


class Derivation(msgspec.Struct, frozen=True, kw_only=True):
    """Of all rows together: each column, and what decides which rows there are."""

    columns: list[DerivedColumn]
    # Columns of filters, join conditions, keys of groups and of DISTINCT.
    rows_from: list[Origin] = []
    rows_meaning: str = ""
