"""Whether the values of a column are distributed as in the partitions before.

What is compared are a mean, and counts of values that have something in common: numbers their
size, in steps of some forty per cent, others a part of their hash. The counts hold no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.figures import count
from trace_platform.operators.row_checks.drift_history import Figures, History, State, together
from trace_platform.operators.row_checks.found import Found, need_columns
from trace_platform.operators.row_checks.one_pass import Staged
from trace_platform.wire import check_spec as checks

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_STEPS_PER_DOUBLING = 2
# Larger numbers are alike.
_MOST_STEPS = 256
_HASHED = 64
# Of what has not been seen: half a value.
_UNSEEN = 0.5
# Sums of the same numbers in another order differ by less.
_SAME = 1e-9


def judge(check: checks.Drift, staged: Staged, history: History) -> tuple[Found, State]:
    """What was found, and what to keep for the partitions that follow."""
    now = _figures(check, staged)
    state = history.with_one(staged.blocks, now, check.partitions)
    before = history.before(staged.blocks, check.partitions)
    if len(before) < check.at_least:
        said = f"{count(len(before), 'partition')} before, {check.at_least} are compared with"
        return Found(0, said), state
    if not now.counts:
        return Found(0, "no row to compare"), state
    told = list(_told(check, now, before))
    failing = any(figure > bound for _, figure, bound in told)
    said = "; ".join(f"{what} {_shown(figure)}, at most {bound:g}" for what, figure, bound in told)
    return Found(int(failing), f"{said} ({count(len(before), 'partition')} before)"), state


def z_score(value: float, before: Sequence[float]) -> float:
    """In standard deviations of those of before."""
    middle, spread = fmean(before), stdev(before)
    if math.isclose(value, middle, rel_tol=_SAME):
        return 0.0
    return abs(value - middle) / spread if spread > abs(middle) * _SAME else math.inf


def divergence(now: Mapping[str, int], before: Mapping[str, int]) -> float:
    """Kullback-Leibler, in nats: what it costs to expect values as before and to find these."""
    names = now.keys() | before.keys()
    of_now = sum(now.values()) + _UNSEEN * len(names)
    of_before = sum(before.values()) + _UNSEEN * len(names)
    found = 0.0
    for name in names:
        share = (now.get(name, 0) + _UNSEEN) / of_now
        found += share * math.log(share * of_before / (before.get(name, 0) + _UNSEEN))
    return max(found, 0.0)


def _told(
    check: checks.Drift, now: Figures, before: Sequence[Figures]
) -> Iterator[tuple[str, float, float]]:
    means = [each.mean for each in before if each.mean is not None]
    if check.z_score is not None and now.mean is not None and len(means) >= check.at_least:
        yield "z-score of the mean", z_score(now.mean, means), check.z_score
    if check.kl is not None:
        yield "divergence", divergence(now.counts, together([*before])), check.kl


def _shown(figure: float) -> str:
    return "without bound" if math.isinf(figure) else f"{figure:.3g}"


def _figures(check: checks.Drift, staged: Staged) -> Figures:
    from pyspark.sql import functions as f

    need_columns(staged.frame, [check.column])
    kind = staged.frame.schema[check.column].dataType
    numbers = _is_number(kind)
    if check.z_score is not None and not numbers:
        raise InvalidConfig(
            f"z_score compares means, and {check.column} is {kind.simpleString()}: compare its "
            "values with kl, or a number"
        )
    column = f.col(check.column)
    number = column.cast("double") if numbers else f.lit(None).cast("double")
    finite = f.when(~f.isnan(number) & (f.abs(number) < math.inf), number)
    rows = (
        staged.frame.select(_group(column, kind).alias("g"), finite.alias("v"))
        .groupBy("g")
        .agg(f.count("*").alias("n"), f.count("v").alias("values"), f.sum("v").alias("sum"))
        .collect()
    )
    values = sum(row["values"] for row in rows)
    mean = math.fsum(row["sum"] or 0.0 for row in rows) / values if values else None
    return Figures(mean, {row["g"]: row["n"] for row in rows})


def _group(column: Column, kind: DataType) -> Column:
    """What a value has in common with those that are counted with it."""
    from pyspark.sql import functions as f

    if _is_number(kind):
        number = column.cast("double")
        steps = f.least(
            f.floor(_STEPS_PER_DOUBLING * f.log2(1 + f.abs(number))), f.lit(_MOST_STEPS)
        )
        odd = f.isnan(number) | (f.abs(number) == math.inf)
        named = f.when(odd, number.cast("string")).otherwise(
            (f.signum(number) * steps).cast("bigint").cast("string")
        )
    elif kind.typeName() in ("string", "binary", "boolean"):
        named = f.pmod(f.xxhash64(column), f.lit(_HASHED)).cast("string")
    else:
        raise InvalidConfig(
            f"a {kind.simpleString()} is another in each partition: drift compares numbers, text, "
            "bytes and booleans"
        )
    return f.coalesce(named, f.lit("null"))


def _is_number(kind: DataType) -> bool:
    from pyspark.sql.types import NumericType

    return isinstance(kind, NumericType)
