"""What Spark says of a statement: which step, where in its text, and what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trace_platform.domain.errors import InvalidQuery
from trace_platform.operators.statement import SparkStep

# The parser counts columns from 0; what is told of rows counts them from 1.
_PARSED = re.compile(r"\bline (\d+),? pos (\d+)\b")
_ON_A_ROW = re.compile(r"== SQL.*\(line (\d+), position (\d+)\) ==\n(.*)")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]\s*")
# Data exceptions, as the SQL standard numbers them.
_OF_A_VALUE = re.compile(r"SQLSTATE: 22")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_CURE = "a function that begins with try_ makes NULL of what it cannot take"


def named_step(step: SparkStep, line: int | None = None, column: int | None = None) -> str:
    place = f", line {line}, column {column}" if line is not None else ""
    return f"step {step.name}{place}"


@contextmanager
def said_by_spark(step: SparkStep) -> Iterator[None]:
    """Around what reads a statement, before a row of it was made: what is wrong is in its text."""
    try:
        yield
    except InvalidQuery as error:
        raise _of_text(step, error) from error.__cause__


def _of_text(step: SparkStep, error: InvalidQuery) -> InvalidQuery:
    text = str(error.__cause__ or error)
    line = column = None
    if found := _PARSED.search(text):
        line, column = int(found[1]), int(found[2]) + 1
    said = _STATE.sub("", _CONDITION.sub("", text.strip().splitlines()[0])).rstrip(". ")
    return InvalidQuery(
        f"{named_step(step, line, column)}: {said}", step=step.name, line=line, column=column
    )


@contextmanager
def said_of_rows(steps: Sequence[SparkStep]) -> Iterator[None]:
    """Around what makes the rows: a value that a statement cannot take is told with its place, and
    without the value. A task reads columns that are masked for others, and others read this."""
    try:
        yield
    except InvalidQuery as error:
        text = str(error.__cause__ or "")
        condition, place = _CONDITION.search(text), _ON_A_ROW.search(text)
        if condition is None or not (place or _OF_A_VALUE.search(text)):
            raise
        raise _of_a_row(steps, condition[1], place) from error.__cause__


def _of_a_row(
    steps: Sequence[SparkStep], condition: str, place: re.Match[str] | None
) -> InvalidQuery:
    if place is None:
        return InvalidQuery(f"{condition} on a row that a statement reads", hint=_CURE)
    line, column = int(place[1]), int(place[2])
    step = _with_line(steps, line, place[3])
    where = named_step(step, line, column) if step else f"line {line}, column {column}"
    return InvalidQuery(
        f"{where}: {condition} on a row that the statement reads",
        hint=_CURE,
        step=step.name if step else None,
        line=line,
        column=column,
    )


def _with_line(steps: Sequence[SparkStep], line: int, text: str) -> SparkStep | None:
    """The step whose text has this line."""
    for step in steps:
        lines = step.sql.splitlines()
        if line <= len(lines) and text.strip() in (lines[line - 1].strip(), step.sql.strip()):
            return step
    return None
