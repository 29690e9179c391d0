"""A statement of SQL in an operator's config, as it is checked before a deploy."""

from __future__ import annotations

from dataclasses import dataclass

from trace_platform.operators.accepts import Updates


@dataclass(frozen=True, slots=True)
class Word:
    """Something of a statement that an update stands in for when it runs, such as `$start`."""

    text: str
    # Where in the statement it is.
    at: int
    # Updates of these kinds have it.
    updates: Updates


@dataclass(frozen=True, slots=True)
class Statement:
    # Of the config.
    field: tuple[str | int, ...]
    # As it runs. What is put in later has a stand-in of the same length, so that places stay.
    sql: str
    words: tuple[Word, ...] = ()
    # The output whose rows its answer is; None: of none.
    output: int | None = None
