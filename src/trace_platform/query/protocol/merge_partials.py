"""The results of a fold: its files hold one row of partial results per key and range of blocks."""

from __future__ import annotations

from collections.abc import Mapping

from trace_platform.sql.sql_text import quoted

# Where a row is on the chain, then its value, of which none is the smallest: as Spark compares what
# holds both, and DuckDB does not.
_PLACED = (
    "struct_pack(place := struct_update({0}, value := 0), is_known := {0}.value IS NOT NULL,"
    " value := {0}.value)"
)
# The column stands in for {0}.
_RESULTS = {
    "sum": "sum({0})",
    "sum_exact": "CAST(sum(CAST({0} AS BIGNUM)) AS VARCHAR)",
    "count": "CAST(coalesce(sum({0}), 0) AS BIGINT)",
    "min": "min({0})",
    "max": "max({0})",
    "avg": "CAST(sum({0}.sum) AS DOUBLE) / nullif(sum({0}.count), 0)",
    # By way of text, since BIGNUM itself is not rounded to the nearest.
    "avg_exact": "CAST(CAST(sum(CAST({0}.sum AS BIGNUM)) AS VARCHAR) AS DOUBLE)"
    " / nullif(sum({0}.count), 0)",
    "first": f"(min({_PLACED}) FILTER (WHERE {{0}} IS NOT NULL)).value",
    "last": f"(max({_PLACED}) FILTER (WHERE {{0}} IS NOT NULL)).value",
    "count_distinct": "CAST(len(list_distinct(flatten(list({0})))) AS BIGINT)",
}


def merged(partials: str, merges: Mapping[str, str]) -> str:
    """A SELECT of one row for each key: what `merges` does not name is the key."""
    values = [
        f"{_RESULTS[how].format(f'p.{quoted(c)}')} AS {quoted(c)}" for c, how in merges.items()
    ]
    partial = ", ".join(map(quoted, merges))
    return f"SELECT p.* EXCLUDE ({partial}), {', '.join(values)} FROM {partials} AS p GROUP BY ALL"
