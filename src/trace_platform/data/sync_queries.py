"""Named queries from `.sql` files, for processes that are not async."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from trace_platform.drivers.postgres.queries import Row, split_queries

SyncTx = Connection[Row]
SyncQuery = Callable[..., Any]


class SyncQueries:
    """As `drivers.postgres.queries.Queries`, each a function of a transaction and parameters."""

    def __init__(self, path: Path) -> None:
        self._queries = {
            name: _bind(sql, suffix) for name, suffix, sql in split_queries(path.read_text())
        }

    def __getattr__(self, name: str) -> SyncQuery:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(name) from None


def load_sync_queries(module_file: str) -> SyncQueries:
    """The `.sql` file beside a module."""
    return SyncQueries(Path(module_file).with_suffix(".sql"))


def _bind(sql: str, suffix: str) -> SyncQuery:
    def run(tx: SyncTx, **parameters: Any) -> Any:
        adapted = {k: Jsonb(v) if isinstance(v, dict) else v for k, v in parameters.items()}
        cursor = tx.execute(sql.encode(), adapted)
        if suffix == "!":
            return cursor.rowcount
        if suffix == "":
            return cursor.fetchall()
        row = cursor.fetchone()
        if suffix == "$":
            return next(iter(row.values())) if row else None
        return row

    return run
