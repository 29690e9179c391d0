"""Partial results of a fold: made of rows, put together, and turned into what readers see.

Each column of partial results says in its metadata how it is merged; the others are the keys. A
result depends on the rows alone, never on how they were cut into ranges.
Numbers in decimal text are summed in limbs of nine digits, each a column of Spark's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trace_platform.domain.errors import InvalidQuery, note_of
from trace_platform.operators.io.parquet_columns import MERGE
from trace_platform.wire.manifest import Merge

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LIMB, _LIMBS = 9, 14
_BASE = f"{10**_LIMB}L"
# So many limbs fit into a decimal, the last one as far as it is small.
_FEW = 4
_BASE_OF = [10 ** (_LIMB * n) for n in range(_FEW)]
# Of a number that is added up: so that a billion of them still fit into the limbs.
_MOST_DIGITS = _LIMB * _LIMBS - 9
# Of a sum, which is added up with others.
_SUM_DIGITS = _LIMB * _LIMBS
_TOTAL, _COUNT, _VALUE = "sum", "count", "value"


def from_rows(
    frame: DataFrame, by: list[str], values: Mapping[str, tuple[Merge, Column]]
) -> DataFrame:
    """One row of partial results for each key."""
    made = {name: _of_rows(merge, column) for name, (merge, column) in values.items()}
    merges = {name: merge for name, (merge, _) in values.items()}
    return _stored(_grouped(frame, by, made), by, merges)


def combined(frame: DataFrame, merges: Mapping[str, Merge]) -> DataFrame:
    """Partial results of partial results."""
    by = _keys(frame, merges)
    return _stored(_put_together(frame, by, merges), by, merges)


def results(frame: DataFrame, merges: Mapping[str, Merge]) -> DataFrame:
    """What readers see: one row for each key."""
    by = _keys(frame, merges)
    shown = [_shown(merge, name) for name, merge in merges.items()]
    return _put_together(frame, by, merges).select(*map(_quoted, by), *shown)


def _put_together(frame: DataFrame, by: list[str], merges: Mapping[str, Merge]) -> DataFrame:
    made = {name: _of_partials(merge, frame, name) for name, merge in merges.items()}
    texts = {name: merge for name, merge in merges.items() if merge in ("sum_exact", "avg_exact")}
    return _with_text(_grouped(frame, by, made), texts)


def _stored(frame: DataFrame, by: list[str], merges: Mapping[str, Merge]) -> DataFrame:
    from pyspark.sql import functions as f

    frame = _with_text(frame, {n: m for n, m in merges.items() if _is_in_limbs(frame, n, m)})
    values = [
        f.col(_quoted(name)).alias(name, metadata={MERGE: merge}) for name, merge in merges.items()
    ]
    return frame.select(*map(_quoted, by), *values)


def _grouped(frame: DataFrame, by: list[str], made: Mapping[str, Column]) -> DataFrame:
    columns = [column.alias(name) for name, column in made.items()]
    return frame.groupBy(*map(_quoted, by)).agg(*columns)


def _keys(frame: DataFrame, merges: Mapping[str, Merge]) -> list[str]:
    return [name for name in frame.columns if name not in merges]


def _of_rows(merge: Merge, column: Column) -> Column:
    from pyspark.sql import functions as f

    match merge:
        case "sum":
            return f.sum(column)
        case "sum_exact":
            return _limb_sums(column, _MOST_DIGITS)
        case "count":
            return f.count(column)
        case "min" | "first":
            return f.min(column)
        case "max" | "last":
            return f.max(column)
        case "avg":
            return f.struct(f.sum(column).alias(_TOTAL), f.count(column).alias(_COUNT))
        case "avg_exact":
            return f.struct(
                _limb_sums(column, _MOST_DIGITS).alias(_TOTAL), f.count(column).alias(_COUNT)
            )
        case "count_distinct":
            return f.array_sort(f.collect_set(column))


def _of_partials(merge: Merge, frame: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as f

    column = f.col(_quoted(name))
    match merge:
        case "sum_exact":
            return _limb_sums(column, _SUM_DIGITS)
        case "count":
            return _total(column)
        case "avg" | "avg_exact":
            total = column.getField(_TOTAL)
            added = f.sum(total) if merge == "avg" else _limb_sums(total, _SUM_DIGITS)
            return f.struct(added.alias(_TOTAL), _total(column.getField(_COUNT)).alias(_COUNT))
        case "count_distinct":
            return f.array_sort(_distinct(f.flatten(f.collect_list(column)), _kind(frame, name)))
        case _:
            return _of_rows(merge, column)


def _kind(frame: DataFrame, name: str) -> str:
    """Of the elements of an array."""
    kind: str = frame.schema[name].dataType.elementType.typeName()
    return kind


def _distinct(values: Column, kind: str) -> Column:
    """Spark compares each bytes with all others, and has a set of texts."""
    from pyspark.sql import functions as f

    if kind != "binary":
        return f.array_distinct(values)
    return f.transform(f.array_distinct(f.transform(values, f.hex)), f.unhex)


def _total(counts: Column) -> Column:
    """Never null, as a count of rows is not: partial results of both have the same type."""
    from pyspark.sql import functions as f

    return f.coalesce(f.sum(counts), f.lit(0).cast("bigint"))


def _shown(merge: Merge, name: str) -> Column:
    from pyspark.sql import functions as f

    column = f.col(_quoted(name))
    match merge:
        case "avg" | "avg_exact":
            total, count = column.getField(_TOTAL).cast("double"), column.getField(_COUNT)
            return f.when(count > 0, total / count).alias(name)
        case "first" | "last":
            return column.getField(_VALUE).alias(name)
        case "count_distinct":
            return f.size(column).cast("bigint").alias(name)
        case _:
            return column.alias(name)


def at_position(places: list[str], value: Column) -> Column:
    """What `first` and `last` compare: where a row is on the chain, then its value, so that of two
    rows at one place it is always the same that counts."""
    from pyspark.sql import functions as f

    where = [f.coalesce(f.col(place).cast("bigint"), f.lit(-1)).alias(place) for place in places]
    return f.struct(*where, value.alias(_VALUE))


def _limb_sums(column: Column, digits: int) -> Column:
    """Of numbers in decimal text, so many digits at most: sums of their limbs, the lowest
    first; null without a number."""
    from pyspark.sql import functions as f

    said = InvalidQuery(
        f"a sum of text takes whole numbers of at most {digits} digits",
        hint="bytes_to_uint(bytes) makes them of bytes; cast others to a decimal",
    )
    is_whole = column.rlike(f"^-?[0-9]{{1,{digits}}}$")
    sure = f.when(is_whole | column.isNull(), column).otherwise(
        f.raise_error(f.lit(f"\n{note_of(said)}\n"))
    )
    padded = f.lpad(f.ltrim(sure, f.lit("-")), _LIMB * _LIMBS, "0")
    sign = f.when(column.startswith("-"), f.lit(-1)).otherwise(f.lit(1))
    limbs = [
        f.sum(f.substring(padded, 1 + _LIMB * (_LIMBS - 1 - n), _LIMB).cast("bigint") * sign)
        for n in range(_LIMBS)
    ]
    return f.when(f.count(column) > 0, f.array(*limbs))


def _is_in_limbs(frame: DataFrame, name: str, merge: Merge) -> bool:
    kind = frame.schema[name].dataType
    total = kind[_TOTAL].dataType if merge == "avg_exact" else kind
    return merge in ("sum_exact", "avg_exact") and total.typeName() == "array"


def _with_text(frame: DataFrame, texts: Mapping[str, Merge]) -> DataFrame:
    """Limbs as decimal text."""
    from pyspark.sql import functions as f

    for name, merge in texts.items():
        column = _quoted(name)
        if merge == "avg_exact":
            total = f.expr(_text(f"{column}.`{_TOTAL}`")).alias(_TOTAL)
            made = f.struct(total, f.col(f"{column}.`{_COUNT}`").alias(_COUNT))
        else:
            made = f.expr(_text(column))
        frame = frame.withColumn(name, made)
    return frame


def _text(limbs: str) -> str:
    """The number that sums of limbs are, in Spark SQL. Most have few limbs, and Spark adds these up
    many times faster than it walks through an array."""
    few = range(_FEW)
    small = " and ".join(
        [f"abs({limbs}[{_FEW - 1}]) < {10**_LIMB}L"]
        + [f"{limbs}[{n}] = 0" for n in range(_FEW, _LIMBS)]
    )
    total = " + ".join(f"cast({limbs}[{n}] as decimal(38, 0)) * {_BASE_OF[n]}BD" for n in few)
    return (
        f"case when {limbs} is null then null when {small} then cast({total} as string)"
        f" else {_long_text(limbs)} end"
    )


def _long_text(limbs: str) -> str:
    """What is over goes up, limb by limb; in one pass of the number, and of it with the other sign:
    the one that is not negative in the end is written."""

    def step(limb: str) -> tuple[str, str]:
        carried = f"({limb} - pmod({limb}, {_BASE})) div {_BASE}"
        return carried, f"lpad(cast(pmod({limb}, {_BASE}) as string), {_LIMB}, '0')"

    (over, digits), (over_of_minus, digits_of_minus) = step("(a.p + x)"), step("(a.m - x)")
    return (
        f"aggregate({limbs}, named_struct('p', 0L, 'pt', '', 'm', 0L, 'mt', ''),"
        f" (a, x) -> named_struct('p', {over}, 'pt', concat({digits}, a.pt),"
        f" 'm', {over_of_minus}, 'mt', concat({digits_of_minus}, a.mt)),"
        " a -> if(a.p < 0, concat('-', ltrim('0', concat(cast(a.m as string), a.mt))),"
        " coalesce(nullif(ltrim('0', concat(cast(a.p as string), a.pt)), ''), '0')))"
    )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
