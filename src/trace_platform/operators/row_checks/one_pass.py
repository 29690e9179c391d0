"""Checks whose answers are figures of an aggregation: all of an output's are found in one pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.figures import count, duration
from trace_platform.operators.row_checks.found import Found, need_columns
from trace_platform.wire import check_spec as checks

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows of one staged partition, and when they are looked at."""

    frame: DataFrame
    rows: int
    blocks: BlockRange | None
    # Seconds since 1970, by the database's clock; asked when a check needs it.
    now: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Measure:
    """Figures to ask for, and what they mean."""

    figures: Mapping[str, Column]
    judge: Callable[[Mapping[str, Any]], Found]


def measure(check: checks.CheckModel, staged: Staged) -> Measure | None:
    """None: it takes a look of its own. Raise InvalidConfig when the rows lack what it needs."""
    if isinstance(check, checks.RowCount):
        return Measure({}, lambda _: _row_count(check, staged.rows))
    if isinstance(check, checks.NotNull):
        return _not_null(check, staged)
    if isinstance(check, checks.Range):
        return _range(check, staged)
    if isinstance(check, checks.AcceptedValues):
        return _accepted(check, staged)
    if isinstance(check, checks.Unique):
        return _unique(check, staged)
    if isinstance(check, checks.Gaps):
        return _gaps(check, staged)
    if isinstance(check, checks.Freshness):
        return _freshness(check, staged)
    return None


def _row_count(check: checks.RowCount, rows: int) -> Found:
    low, high = check.min or 0, check.max
    if rows < low:
        return Found(low - rows, f"{count(rows, 'row')}, at least {low:,} are wanted")
    if high is not None and rows > high:
        return Found(rows - high, f"{count(rows, 'row')}, at most {high:,} are allowed")
    return Found(0, count(rows, "row"))


def _not_null(check: checks.NotNull, staged: Staged) -> Measure:
    from pyspark.sql import functions as f

    need_columns(staged.frame, check.columns)
    wrong = f.lit(False)
    for column in check.columns:
        wrong = wrong | f.col(column).isNull()
    return _rows_where(wrong, f"have null in {' or '.join(check.columns)}", staged)


def _range(check: checks.Range, staged: Staged) -> Measure:
    from pyspark.sql import functions as f

    need_columns(staged.frame, [check.column])
    column, wrong = f.col(check.column), f.lit(False)
    _refuse_text(check, staged.frame)
    if check.min is not None:
        wrong = wrong | (column < _literal(check.min, check.column, staged.frame))
    if check.max is not None:
        wrong = wrong | (column > _literal(check.max, check.column, staged.frame))
    bounds = [f"below {check.min}"] * (check.min is not None)
    bounds += [f"above {check.max}"] * (check.max is not None)
    return _rows_where(wrong, f"have a {check.column} {' or '.join(bounds)}", staged)


def _refuse_text(check: checks.Range, frame: DataFrame) -> None:
    """Among texts 9 comes behind 10: bounds that are numbers are of a column of numbers."""
    bounds = [bound for bound in (check.min, check.max) if bound is not None]
    if frame.schema[check.column].dataType.typeName() == "string" and not all(
        isinstance(bound, str) for bound in bounds
    ):
        raise InvalidConfig(
            f"{check.column} is text, and {bounds[0]} is a number: compare a column of numbers, or "
            "texts with a bound in quotes"
        )


def _accepted(check: checks.AcceptedValues, staged: Staged) -> Measure:
    from pyspark.sql import functions as f

    need_columns(staged.frame, [check.column])
    values = [_literal(value, check.column, staged.frame) for value in check.values]
    wrong = ~f.col(check.column).isin(values)
    return _rows_where(wrong, f"have another {check.column} than is accepted", staged)


def _unique(check: checks.Unique, staged: Staged) -> Measure:
    from pyspark.sql import functions as f

    need_columns(staged.frame, check.columns)
    keys = [f.col(column) for column in check.columns]
    whole = f.lit(True)
    for key in keys:
        whole = whole & key.isNotNull()
    named = ", ".join(check.columns)

    def rows() -> DataFrame:
        groups = staged.frame.filter(whole).groupBy(*keys).agg(f.count("*").alias("rows"))
        return groups.filter("rows > 1")

    def judge(told: Mapping[str, Any]) -> Found:
        more = told["there"] - told["distinct"]
        return Found(more, f"{count(more, 'row')} too many with the same {named}", rows)

    figures = {"there": f.count(f.when(whole, 1)), "distinct": f.count_distinct(*keys)}
    return Measure(figures, judge)


def _gaps(check: checks.Gaps, staged: Staged) -> Measure:
    from pyspark.sql import functions as f

    need_columns(staged.frame, [check.column])
    if staged.blocks is None:
        raise InvalidConfig("the partition is no range of numbers, so it has no gaps")
    blocks, number = staged.blocks, f.col(check.column)
    inside = f.when(number.between(blocks.start, blocks.end), number)

    def rows() -> DataFrame:
        wanted = staged.frame.sparkSession.range(blocks.start, blocks.end + 1)
        there = staged.frame.select(number.cast("long").alias("id"))
        return wanted.join(there, "id", "left_anti").orderBy("id").toDF(check.column)

    def judge(told: Mapping[str, Any]) -> Found:
        missing = len(blocks) - told["distinct"]
        return Found(missing, f"{missing:,} of {len(blocks):,} numbers have no row", rows)

    return Measure({"distinct": f.count_distinct(inside)}, judge)


def _freshness(check: checks.Freshness, staged: Staged) -> Measure:
    from pyspark.sql import functions as f

    need_columns(staged.frame, [check.column])

    def judge(told: Mapping[str, Any]) -> Found:
        if told["newest"] is None:
            return Found(0, "no row has a time")
        age_s = max(0.0, staged.now() - _seconds(told["newest"], check.column))
        said = f"the newest row is {duration(age_s)} old"
        if age_s > check.max_age:
            return Found(1, f"{said}, at most {duration(check.max_age)} is allowed")
        return Found(0, said)

    return Measure({"newest": f.max(check.column)}, judge)


def _rows_where(wrong: Column, said: str, staged: Staged) -> Measure:
    from pyspark.sql import functions as f

    def judge(told: Mapping[str, Any]) -> Found:
        failing = told["failing"]
        message = f"{failing:,} of {count(staged.rows, 'row')} {said}"
        return Found(failing, message, lambda: staged.frame.filter(wrong))

    return Measure({"failing": f.count(f.when(wrong, 1))}, judge)


def _literal(value: Any, column: str, frame: DataFrame) -> Column:
    """As the column's type has it. Raise InvalidConfig for what that type cannot hold."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BinaryType, NumericType

    kind = frame.schema[column].dataType
    if isinstance(kind, NumericType) and isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise InvalidConfig(f"{column} is {kind.simpleString()}, and {value!r} is no number")
    if isinstance(kind, BinaryType):
        try:
            return f.lit(bytes.fromhex(str(value).removeprefix("0x")))
        except ValueError:
            raise InvalidConfig(f"{column} holds bytes: write 0x and hexadecimal digits") from None
    literal = f.lit(value) if isinstance(value, str) else f.lit(str(value))
    # A bound of a whole number may have digits behind the point.
    if isinstance(value, float) and kind.typeName() in ("byte", "short", "integer", "long"):
        return literal.cast("decimal(38,9)")
    return literal.cast(kind)


def _seconds(newest: Any, column: str) -> float:
    if isinstance(newest, datetime):
        return newest.timestamp()
    if isinstance(newest, date):
        return datetime(newest.year, newest.month, newest.day, tzinfo=UTC).timestamp()
    if isinstance(newest, int | float) and not isinstance(newest, bool):
        return float(newest)
    raise InvalidConfig(f"{column} is neither a time nor a number of seconds since 1970")
