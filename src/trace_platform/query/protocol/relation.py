"""A dataset as a view: rows of Postgres from a block on, rows of Parquet files below it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from trace_platform.query.protocol.merge_partials import merged
from trace_platform.query.protocol.messages import Relation
from trace_platform.query.protocol.where_sql import to_condition
from trace_platform.sql.relations import Column
from trace_platform.sql.sql_text import listed, quoted, text

BLOCK = "block_number"
_MASK = "***"


def create_view(relation: Relation, columns: Sequence[Column], rows: str) -> str:
    """The view over `rows`, a relation with at least these columns.

    A mask is inside the view: nothing that a statement says is ever computed from the value.
    """
    masked = masked_columns(relation, columns)
    shown = ", ".join(_shown(column, masked) for column in columns)
    condition = to_condition(relation.where or {}, {each.name: each.type for each in columns}, "r")
    return f"CREATE VIEW {quoted(relation.view)} AS SELECT {shown} FROM {rows} WHERE {condition}"


def masked_columns(relation: Relation, columns: Sequence[Column]) -> list[str]:
    """Those of the columns whose values the view does not show. A name to mask that is no column
    may stand for any of them: then all are masked but those that are known not to be personal."""
    asked = {name.lower() for name in relation.masked}
    there = {column.name.lower() for column in columns}
    hidden = asked if asked <= there else there - {name.lower() for name in relation.not_personal}
    return [column.name for column in columns if column.name.lower() in asked | hidden]


def all_rows(relation: Relation, hot: str | None, hot_names: Collection[str] = ()) -> str:
    """What lies under the view. `hot` is the registered table, `hot_names` the columns that it
    has: those that the statement needs."""
    parts = []
    if relation.files:
        parts.append(_cold(relation))
    if hot is not None:
        parts.append(_hot(relation, hot, hot_names))
    elif relation.columns and (relation.mixed or relation.hot_columns):
        # Columns that none of these files has are there all the same.
        parts.append(_none(relation))
    return f"({' UNION ALL BY NAME '.join(parts) or _none(relation)}) AS r"


def cold_files(relation: Relation) -> str:
    # Only where it is needed: DuckDB reads the footer of every file for it.
    by_name = ", union_by_name = true" if relation.mixed else ""
    return f"read_parquet({listed(relation.files)}, hive_partitioning = false{by_name})"


def _cold(relation: Relation) -> str:
    if relation.merges:
        return merged(cold_files(relation), relation.merges)
    below = "" if relation.seam is None else f" WHERE {BLOCK} < {relation.seam:d}"
    return f"SELECT * FROM {cold_files(relation)}{below}"


def _hot(relation: Relation, hot: str, hot_names: Collection[str]) -> str:
    cast = ", ".join(
        f"CAST({quoted(each.name) if each.name in hot_names else 'NULL'} AS {each.type})"
        f" AS {quoted(each.name)}"
        for each in relation.columns
    )
    return f"SELECT {cast} FROM {quoted(hot)}"


def _none(relation: Relation) -> str:
    nulls = (f"CAST(NULL AS {each.type}) AS {quoted(each.name)}" for each in relation.columns)
    return f"SELECT {', '.join(nulls)} WHERE false"


def _shown(column: Column, masked: Collection[str]) -> str:
    name = quoted(column.name)
    if column.name not in masked:
        return f"r.{name}"
    value = text(_MASK) if column.type == "VARCHAR" else f"CAST(NULL AS {column.type})"
    return f"{value} AS {name}"
