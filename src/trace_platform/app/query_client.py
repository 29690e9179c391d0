"""The query service of a running instance, as a user sees it."""

from __future__ import annotations

from trace_platform.app.home import Home
from trace_platform.app.service_client import call
from trace_platform.wire.query import DatasetList, QueryResponse


def run_query(home: Home, sql: str, limit: int = 1000) -> QueryResponse:
    """The rows. Raise what the service named: InvalidQuery, NotFound, Unavailable, …"""
    body = {"sql": sql, "limit": limit}  # the service checks it, and says what is wrong
    return QueryResponse.model_validate_json(call(home, "query", "POST", "/v1/query", body))


def list_datasets(home: Home) -> DatasetList:
    return DatasetList.model_validate_json(call(home, "query", "GET", "/v1/datasets"))
