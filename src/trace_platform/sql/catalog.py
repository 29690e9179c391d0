"""The catalog that a query sees: the datasets of its caller, and nothing else.

DuckDB's own catalog knows where the rows of views lie, so no query reads it. These views have its
names and columns in a schema of their own, over what the parent says of the caller's datasets.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from trace_platform.sql.relations import Described

SCHEMA = "trace_catalog"
# Of information_schema.
VIEWS = frozenset({"columns", "schemata", "tables"})
FUNCTIONS = frozenset({"duckdb_columns", "duckdb_tables"})
# SHOW TABLES and SHOW ALL TABLES.
RELATIONS = VIEWS | FUNCTIONS | {"show_tables", "show_all_tables"}
HINT = (
    "SHOW TABLES lists the datasets, DESCRIBE NAME the columns of one; so do"
    " information_schema.tables and .columns, duckdb_tables() and duckdb_columns()"
)

_VIEWS_SQL = Path(__file__).with_name("catalog.sql").read_text()
_TABLES = pa.schema([("name", pa.string()), ("comment", pa.string()), ("rows", pa.int64())])
_COLUMNS = pa.schema(
    [
        ("table_name", pa.string()),
        ("name", pa.string()),
        ("position", pa.int32()),
        ("type", pa.string()),
        ("is_masked", pa.bool_()),
    ]
)


def add(connection: duckdb.DuckDBPyConnection, datasets: Sequence[Described]) -> None:
    tables = [(each.name, each.comment, each.rows) for each in datasets]
    columns = [
        (each.name, column.name, at, column.type, column.name in each.masked)
        for each in datasets
        for at, column in enumerate(each.columns, 1)
    ]
    connection.execute(f"CREATE SCHEMA {SCHEMA}")
    _fill(connection, "datasets", _TABLES, tables)
    _fill(connection, "dataset_columns", _COLUMNS, columns)
    connection.execute(_VIEWS_SQL)


def is_relation(path: Sequence[str]) -> bool:
    """Whether these parts of a folded name are one of the catalog's relations."""
    catalog, named = path[:-2], path[-2:]
    return catalog in ([], ["memory"]) and named[:1] == [SCHEMA] and named[1] in RELATIONS


def _fill(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    schema: pa.Schema,
    rows: Sequence[tuple[object, ...]],
) -> None:
    given = pa.Table.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema
    )
    connection.register("given", given)
    connection.execute(f"CREATE TABLE {SCHEMA}.{name} AS FROM given")
    connection.unregister("given")
