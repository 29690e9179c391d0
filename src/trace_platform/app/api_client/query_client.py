"""The query service of a running instance, as its owner sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trace_platform.app.api_client.service_client import place_of, segment
from trace_platform.app.instance.home import Home
from trace_platform.client.answer import Sink
from trace_platform.client.client import save_export
from trace_platform.client.connection import Connection
from trace_platform.client.patience import OnWait
from trace_platform.client.result import Facts
from trace_platform.wire.query import DatasetList, DatasetPage, QueryPage, QueryResponse

# A person waits for a command: not as long as a program would.
_PATIENCE_S = 10.0

Query = Mapping[str, Any]


@contextmanager
def connect(home: Home, on_wait: OnWait | None = None) -> Iterator[Connection]:
    connection = Connection(place_of(home, "query"), patience_s=_PATIENCE_S, on_wait=on_wait)
    try:
        yield connection
    finally:
        connection.close()


def run_query(home: Home, sql: str, limit: int = 1000) -> QueryResponse:
    """All rows. Raise what the service named: InvalidQuery, NotFound, Unavailable, …"""
    with connect(home) as connection:
        return whole(connection, ask_rows(connection, {"sql": sql, "limit": limit}))


def ask_rows(connection: Connection, query: Query) -> QueryResponse:
    """The first page; `pages` has the others."""
    with connection.ask({**query, "format": "json"}) as answer:
        return QueryResponse.model_validate_json(answer.read())


def pages(connection: Connection, first: QueryResponse) -> Iterator[list[list[Any]]]:
    """The rows, page by page, the first one included."""
    page: QueryResponse | QueryPage = first
    yield page.rows
    while page.next is not None:
        page = QueryPage.model_validate_json(connection.get(page.next))
        yield page.rows


def whole(connection: Connection, first: QueryResponse) -> QueryResponse:
    """With the rows of all pages."""
    if first.next is None:
        return first
    rows = [row for page in pages(connection, first) for row in page]
    return first.model_copy(update={"rows": rows, "next": None})


def save(connection: Connection, query: Query, sink: Sink) -> Facts:
    """The bytes of a CSV, an Arrow stream or a Parquet file."""
    if query["format"] == "parquet":
        return Facts.told(save_export(connection, query, sink))
    with connection.ask(query) as answer:
        answer.save(sink)
        return Facts.of(answer)


def datasets(connection: Connection) -> DatasetList:
    return DatasetList.model_validate_json(connection.get("/v1/datasets"))


def dataset(connection: Connection, name: str) -> DatasetPage:
    return DatasetPage.model_validate_json(connection.get(f"/v1/datasets/{segment(name)}"))
