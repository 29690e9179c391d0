"""Named queries from `.sql` files.

A query starts with `-- name: verb`, its suffix saying what comes back: `^` one row or None,
`$` one value or None, `!` the number of rows touched, nothing a list of rows. Parameters are
written `:name`; a dict travels as jsonb, a list as an array.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

Row = dict[str, Any]
Tx = AsyncConnection[Row]
Query = Callable[..., Awaitable[Any]]

_HEADER = re.compile(r"^-- name: (\w+)([\^$!]?)\s*$", re.MULTILINE)
# A colon that is neither a cast nor part of a word starts a parameter.
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")


class Queries:
    """The queries of one file, each an async function of a transaction and its parameters."""

    def __init__(self, path: Path) -> None:
        self._queries = {
            name: _bind(sql, suffix) for name, suffix, sql in split_queries(path.read_text())
        }

    def __getattr__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(name) from None


def load_queries(module_file: str) -> Queries:
    """The `.sql` file beside a module: `tasks = load_queries(__file__)` in `tasks.py`."""
    return Queries(Path(module_file).with_suffix(".sql"))


def split_queries(text: str) -> list[tuple[str, str, str]]:
    """Name, suffix and statement of each."""
    parts = _HEADER.split(text)[1:]
    return [
        (name, suffix, _PARAMETER.sub(r"%(\1)s", _condensed(body).replace("%", "%%")))
        for name, suffix, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def _condensed(body: str) -> str:
    """Without comments and indentation: psycopg remembers how it read a query that is not long."""
    lines = (line.strip() for line in body.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))


def _bind(sql: str, suffix: str) -> Query:
    async def run(tx: Tx, **parameters: Any) -> Any:
        adapted = {k: Jsonb(v) if isinstance(v, dict) else v for k, v in parameters.items()}
        cursor = await tx.execute(sql.encode(), adapted)
        if suffix == "!":
            return cursor.rowcount
        if suffix == "":
            return await cursor.fetchall()
        row = await cursor.fetchone()
        if suffix == "$":
            return next(iter(row.values())) if row else None
        return row

    return run
