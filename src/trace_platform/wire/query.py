"""Query payloads: between users and the query service, and between it and the Dispatcher.

Values in `rows` are JSON that loses nothing: decimals and integers wider than 64 bits are
strings, binary is 0x-hex, dates and times are ISO 8601, NaN and the infinities are strings.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

MAX_ROWS = 100_000
MAX_SQL_CHARS = 100_000


class _Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class QueryRequest(_Payload):
    sql: str = Field(min_length=1, max_length=MAX_SQL_CHARS)
    limit: int = Field(default=1000, ge=1, le=MAX_ROWS)


class QueryColumn(_Payload):
    name: str
    # DuckDB's name of the type, such as UBIGINT or DECIMAL(38,0).
    type: str


class QueryResponse(_Payload):
    columns: list[QueryColumn]
    rows: list[list[Any]]
    row_count: int
    # True only when the query has more rows than these.
    truncated: bool
    elapsed_ms: float
    datasets: list[str]


class ResolvedDataset(_Payload):
    """A published dataset at its current generation: the committed files, all of them."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=128)
    dataset_uuid: UUID
    dataset_version: UUID
    # None while nothing is committed that would tell.
    columns: list[QueryColumn] | None = None
    files: list[str] = []
    row_count: int = Field(default=0, ge=0)


class ResolveResponse(_Payload):
    """`GET /internal/datasets`: the published datasets of the org."""

    datasets: list[ResolvedDataset]


class DatasetSummary(_Payload):
    """What a user may see of a dataset: everything but where its files are."""

    name: str
    dataset_uuid: UUID
    dataset_version: UUID
    columns: list[QueryColumn] | None
    file_count: int
    row_count: int


class DatasetList(_Payload):
    datasets: list[DatasetSummary]
