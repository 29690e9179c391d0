"""The 22 queries of TPC-H through the service give what plain DuckDB gives on the same files: the
same columns, the same types, every value.

Nothing is compared with a tolerance: sums are of decimals, hence exact in any order, and every
double is one division of two of them. Each statement orders its rows completely.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pytest

from tests.support.corpus import corpus
from tests.support.query_service import query_service
from tests.support.tpch import QUERIES, tpch_files
from trace_platform.wire.query import (
    DATASETS_HEADER,
    ROWS_HEADER,
    TRUNCATED_HEADER,
    QueryPage,
    QueryResponse,
)

# Large enough that every query finds something.
SCALE = 0.05
ALL_ROWS = 100_000
WIDE = ("HUGEINT", "UHUGEINT")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    return tpch_files(tmp_path_factory.mktemp("tpch"), SCALE)


@pytest.fixture(scope="module")
def plain(tables: dict[str, list[Path]]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 2}) as connection:
        for table, files in tables.items():
            rows = connection.read_parquet([str(file) for file in files])
            rows.create_view(table)
        yield connection


@pytest.fixture(scope="module")
def client(
    tables: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    with query_service(tmp_path_factory.mktemp("home"), "[query]\nconcurrency = 1\n") as service:
        for table, files in tables.items():
            service.publish(table, files)
        with service.client() as client:
            yield client


@corpus("query", list(QUERIES))
def test_arrow_is_what_duckdb_answers(
    query: str, client: httpx.Client, plain: duckdb.DuckDBPyConnection
) -> None:
    expected = plain.sql(QUERIES[query]).to_arrow_table()
    answer = _ask(client, QUERIES[query], format="arrow")
    found = pa.ipc.open_stream(answer.content).read_all()
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist()
    assert answer.headers[ROWS_HEADER] == str(expected.num_rows)
    assert answer.headers[TRUNCATED_HEADER] == "false"


@corpus("query", list(QUERIES))
def test_json_is_what_duckdb_answers(
    query: str, client: httpx.Client, plain: duckdb.DuckDBPyConnection
) -> None:
    expected, columns = plain.execute(QUERIES[query]).fetchall(), _columns(plain, QUERIES[query])
    answer = QueryResponse.model_validate_json(_ask(client, QUERIES[query], limit=ALL_ROWS).content)
    assert [(column.name, column.type) for column in answer.columns] == columns
    types = [type_name for _, type_name in columns]
    assert answer.rows == [[_as_json(*v) for v in zip(row, types, strict=True)] for row in expected]
    assert (answer.row_count, answer.truncated, answer.next) == (len(expected), False, None)


def test_every_query_finds_something(plain: duckdb.DuckDBPyConnection) -> None:
    """Else the others would compare nothing."""
    rows = {query: plain.execute(sql).fetchall() for query, sql in QUERIES.items()}
    assert len(rows) == 22
    assert [query for query, found in rows.items() if not found or None in found[0]] == []


def test_pages_put_together_are_the_answer(
    client: httpx.Client, plain: duckdb.DuckDBPyConnection
) -> None:
    expected = plain.execute(QUERIES["q16"]).fetchall()
    page_rows = len(expected) // 3
    first = _ask(client, QUERIES["q16"], limit=ALL_ROWS, page_rows=page_rows)
    page: QueryResponse | QueryPage = QueryResponse.model_validate_json(first.content)
    pages = [page.rows]
    while page.next is not None:
        answer = client.get(page.next)
        assert answer.status_code == 200, answer.text
        page = QueryPage.model_validate_json(answer.content)
        pages.append(page.rows)
    assert [len(rows) for rows in pages[:3]] == [page_rows] * 3
    assert [row for rows in pages for row in rows] == [list(row) for row in expected]


def test_the_answer_names_the_tables_that_were_read(client: httpx.Client) -> None:
    read = _ask(client, QUERIES["q05"], format="arrow").headers[DATASETS_HEADER]
    names = sorted(part.strip().partition("@")[0] for part in read.split(","))
    assert names == ["customer", "lineitem", "nation", "orders", "region", "supplier"]


def _ask(client: httpx.Client, sql: str, **asked: object) -> httpx.Response:
    answer = client.post("/v1/query", json={"sql": sql, **asked})
    assert answer.status_code == 200, answer.text
    return answer


def _columns(plain: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in plain.execute(f"DESCRIBE {sql}").fetchall()]


def _as_json(value: Any, type_name: str) -> Any:
    if value is None:
        return None
    if type_name in WIDE:
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, date) else value
