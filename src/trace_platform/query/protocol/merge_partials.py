"""The results of a fold: its files hold one row of partial results per key and range of blocks."""

from __future__ import annotations

from collections.abc import Mapping

from trace_platform.sql.sql_text import quoted

# The column stands in for {0}.
_RESULTS = {
    "sum": "sum({0})",
    "sum_exact": "CAST(sum(CAST({0} AS BIGNUM)) AS VARCHAR)",
    "count": "CAST(coalesce(sum({0}), 0) AS BIGINT)",
    "min": "min({0})",
    "max": "max({0})",
    "avg": "CAST(sum({0}.sum) AS DOUBLE) / nullif(sum({0}.count), 0)",
    "avg_exact": "CAST(sum(CAST({0}.sum AS BIGNUM)) AS DOUBLE) / nullif(sum({0}.count), 0)",
    "first": "struct_extract(min({0}), 'value')",
    "last": "struct_extract(max({0}), 'value')",
    "count_distinct": "CAST(len(list_distinct(flatten(list({0})))) AS BIGINT)",
}


def merged(partials: str, merges: Mapping[str, str]) -> str:
    """A SELECT of one row for each key: what `merges` does not name is the key."""
    values = [
        f"{_RESULTS[how].format(f'p.{quoted(c)}')} AS {quoted(c)}" for c, how in merges.items()
    ]
    partial = ", ".join(map(quoted, merges))
    return f"SELECT p.* EXCLUDE ({partial}), {', '.join(values)} FROM {partials} AS p GROUP BY ALL"
