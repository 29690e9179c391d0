"""Named queries from `.sql` files.

A query starts with `-- name: verb`, its suffix saying what comes back: `^` one row or None,
`$` one value or None, `!` the number of rows touched, nothing a list of rows. Parameters are
written `:name`; a dict travels as jsonb, a list as an array.

A row comes back as a dict, or as a dataclass that the caller names: its fields are exactly the
query's columns, which is checked when the query runs for the first time.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import AsyncRowFactory
from psycopg.types.json import Jsonb

Row = dict[str, Any]
Tx = AsyncConnection[Row]
Query = Callable[..., Awaitable[Any]]
T = TypeVar("T")

_HEADER = re.compile(r"^-- name: (\w+)([\^$!]?)\s*$", re.MULTILINE)
# A colon that is neither a cast nor part of a word starts a parameter.
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")


class Queries:
    """The queries of one file, each an async function of a transaction and its parameters."""

    def __init__(self, path: Path) -> None:
        self._queries = {
            name: _bind(f"{path.name}: {name}", sql, suffix)
            for name, suffix, sql in split_queries(path.read_text())
        }

    def __getattr__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(name) from None

    async def rows(self, tx: Tx, query: str, row_type: type[T], /, **parameters: Any) -> list[T]:
        """What this query finds, each row as one of these dataclasses."""
        return cast(list[T], await getattr(self, query)(tx, row_type, **parameters))

    async def row(self, tx: Tx, query: str, row_type: type[T], /, **parameters: Any) -> T | None:
        """The same of a query with one row at most."""
        return cast(T | None, await getattr(self, query)(tx, row_type, **parameters))

    async def one(self, tx: Tx, query: str, row_type: type[T], /, **parameters: Any) -> T:
        """The same of a query that always finds one, such as a count."""
        found = await self.row(tx, query, row_type, **parameters)
        assert found is not None, f"{query} found nothing"
        return found


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


def _bind(name: str, sql: str, suffix: str) -> Query:
    # Once per type and not per run: a hot query pays for the check of its columns only once.
    factory_of = cache(lambda row_type: _factory(name, row_type))

    async def run(tx: Tx, row_type: type | None = None, /, **parameters: Any) -> Any:
        adapted = {k: Jsonb(v) if isinstance(v, dict) else v for k, v in parameters.items()}
        cursor = tx.cursor(row_factory=factory_of(row_type)) if row_type else tx.cursor()
        await cursor.execute(sql.encode(), adapted)
        if suffix == "!":
            return cursor.rowcount
        if suffix == "":
            return await cursor.fetchall()
        row = await cursor.fetchone()
        if suffix == "$":
            return next(iter(row.values())) if row else None
        return row

    return run


def _factory(name: str, row_type: type[T]) -> AsyncRowFactory[T]:
    wanted = [field.name for field in fields(cast(Any, row_type))]
    made: list[Callable[[Sequence[Any]], T]] = []

    def factory(cursor: AsyncCursor[Any]) -> Callable[[Sequence[Any]], T]:
        if not made:
            found = [column.name for column in cursor.description or ()]
            made.append(_maker(name, row_type, wanted, found))
        return made[0]

    return factory


def _maker(
    name: str, row_type: type[T], wanted: Sequence[str], found: Sequence[str]
) -> Callable[[Sequence[Any]], T]:
    assert sorted(wanted) == sorted(found), (
        f"{name} does not return a {row_type.__name__}:"
        f" it has no column {sorted(set(wanted) - set(found))},"
        f" and its columns {sorted(set(found) - set(wanted))} are no fields"
    )
    if list(wanted) == list(found):
        return lambda values: row_type(*values)
    return lambda values: row_type(**dict(zip(found, values, strict=True)))
