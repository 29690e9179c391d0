"""Every query that names a dataclass returns exactly its fields, also one that hardly ever runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path

import psycopg
import pytest

from tests.conftest import StateDsns
from trace_platform import state
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Queries, split_queries

FOLDER = Path(state.__file__).parent


def test_each_query_returns_the_fields_of_the_dataclass_that_it_is_run_with(
    state_dsns: StateDsns,
) -> None:
    wrong = []
    with psycopg.connect(state_dsns.owner, autocommit=True) as connection:
        for module, query, row_type in typed_queries():
            columns = columns_of(connection, statement(module, query))
            wanted = [field.name for field in fields(getattr(import_module(module), row_type))]
            if sorted(columns) != sorted(wanted):
                wrong.append(f"{module}: {query} is no {row_type}: {set(columns) ^ set(wanted)}")
    assert wrong == []


def typed_queries() -> Iterator[tuple[str, str, str]]:
    """The module, the query and the dataclass of each `_sql.rows(tx, "query", Row, ...)`."""
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name("_sql"), attr="rows" | "row" | "one"),
                    args=[_, ast.Constant(query), ast.Name(row_type)],
                ):
                    yield f"{state.__name__}.{path.stem}", query, row_type


def statement(module: str, query: str) -> str:
    text = (FOLDER / module.rpartition(".")[2]).with_suffix(".sql").read_text()
    (found,) = [sql for name, _, sql in split_queries(text) if name == query]
    return found


def columns_of(connection: psycopg.Connection, sql: str) -> list[str]:
    """As the server describes them: nothing is run."""
    places: dict[str, str] = {}

    def place(parameter: re.Match[str]) -> str:
        return places.setdefault(parameter[1], f"${len(places) + 1}")

    numbered = re.sub(r"%\((\w+)\)s", place, sql).replace("%%", "%")
    prepared = connection.pgconn.prepare(b"", numbered.encode())
    assert not prepared.error_message, prepared.error_message.decode()
    described = connection.pgconn.describe_prepared(b"")
    return [(described.fname(n) or b"").decode() for n in range(described.nfields)]


@dataclass(frozen=True, slots=True)
class Pair:
    a: int
    b: int


@pytest.mark.anyio
async def test_a_row_is_a_dataclass_or_the_error_names_the_query_and_the_columns(
    state_dsns: StateDsns, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.sql"
    path.write_text(
        "-- name: pairs\nSELECT 2 AS b, n AS a FROM generate_series(1, :last) n ORDER BY n;\n"
        "-- name: none^\nSELECT 1 AS a, 2 AS b WHERE false;\n"
        "-- name: other^\nSELECT 1 AS a, 2 AS c;\n"
    )
    queries, database = Queries(path), Database(state_dsns.dispatcher, max_connections=1)
    await database.open()
    try:
        async with database.statement() as tx:
            assert await queries.rows(tx, "pairs", Pair, last=2) == [Pair(1, 2), Pair(2, 2)]
            assert await queries.pairs(tx, last=1) == [{"b": 2, "a": 1}]
            assert await queries.row(tx, "none", Pair) is None
            with pytest.raises(AssertionError, match=r"pairs.sql: other .* Pair.*\['b'\].*\['c'\]"):
                await queries.row(tx, "other", Pair)
    finally:
        await database.close()
