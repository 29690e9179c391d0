"""Checks that join or ask in SQL: each takes a look of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from trace_platform.domain.figures import count
from trace_platform.operators.row_checks.found import Found, need_columns
from trace_platform.wire import check_spec as checks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# By name: an output's own, or input_0 and so on. Read when a statement names it.
Frames = Mapping[str, Callable[[], "DataFrame"]]


def foreign_key(check: checks.ForeignKey, frame: DataFrame, other: DataFrame) -> Found:
    """Rows whose key the other dataset does not have."""
    need_columns(frame, check.columns)
    need_columns(other, check.references.columns)
    keys = [f"_key_{number}" for number in range(len(check.columns))]
    there = other.select(
        *(other[name].alias(key) for name, key in zip(check.references.columns, keys, strict=True))
    ).distinct()
    match = [frame[name] == there[key] for name, key in zip(check.columns, keys, strict=True)]
    wrong = frame.dropna(subset=list(check.columns)).join(there, match, "left_anti")
    failing = wrong.count()
    named = ", ".join(check.columns)
    return Found(
        failing, f"{count(failing, 'row')} with a {named} that is not there", lambda: wrong
    )


def sql(check: checks.Sql, frames: Frames) -> Found:
    """Rows that the statement gives."""
    with _views(check.sql, frames) as views:
        first = next(iter(frames.values()))().sparkSession
        named = ", ".join(f"{name} AS (SELECT * FROM {view})" for name, view in views.items())
        lead = f"WITH {named} " if named else ""
        wrong = first.sql(f"{lead}SELECT * FROM (\n{check.sql}\n) AS failing")
        # Resolved by now: the views are not looked up again.
        failing = wrong.count()
    return Found(failing, f"the statement gives {count(failing, 'row')}", lambda: wrong)


@contextmanager
def _views(statement: str, frames: Frames) -> Iterator[dict[str, str]]:
    """For the frames whose names are in the statement. Views belong to a session, which all tasks
    of a worker share: each has a name of its own."""
    used = {name: read() for name, read in frames.items() if name in statement}
    views = {name: f"trace_check_{uuid4().hex}" for name in used}
    try:
        for name, frame in used.items():
            frame.createTempView(views[name])
        yield views
    finally:
        _drop(list(used.values()), list(views.values()))


def _drop(frames: Sequence[DataFrame], views: Sequence[str]) -> None:
    for frame, view in zip(frames, views, strict=True):
        frame.sparkSession.catalog.dropTempView(view)
