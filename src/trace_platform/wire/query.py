"""Query payloads: between users and the query service, and between it and the Dispatcher.

Values in `rows` are JSON that loses nothing: decimals and integers wider than 64 bits are
strings, binary is 0x-hex, dates and times are ISO 8601, NaN and the infinities are strings.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from trace_platform.wire.dataset import DatasetDetail, DatasetState, Lineage, Partitions
from trace_platform.wire.dataset import DatasetVersion as Generation

MAX_ROWS = 1_000_000
DEFAULT_ROWS = 1_000
MAX_SQL_CHARS = 100_000
# A statement has up to 12 bytes a character when it is sent as JSON.
MAX_REQUEST_BYTES = 2 * 2**20
# In one statement.
MAX_DATASETS = 64

Format = Literal["json", "arrow", "csv", "parquet"]
# A moment with its zone; an id of a deploy or of a version of a DAG, which is when it took over, or
# of a generation; of ids the beginning is enough.
Moment = Annotated[str, Field(min_length=4, max_length=64)]
# A generation of a dataset, or the beginning of its id.
GenerationId = Annotated[str, Field(pattern=r"^[0-9a-fA-F-]{4,36}$")]

# Of an answer that is not JSON: what QueryResponse says beside the rows.
QUERY_ID_HEADER = "X-Trace-Query-Id"
ROWS_HEADER = "X-Trace-Rows"
TRUNCATED_HEADER = "X-Trace-Truncated"
ELAPSED_HEADER = "X-Trace-Elapsed-Ms"
# NAME@VERSION, separated by commas.
DATASETS_HEADER = "X-Trace-Datasets"
# NAME.COLUMN of those that were not shown, separated by commas; absent when there are none.
MASKED_HEADER = "X-Trace-Masked"
# NAME@MOMENT of those that were read as they were then, likewise.
MOMENTS_HEADER = "X-Trace-Moments"


class _Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class QueryRequest(_Payload):
    sql: str = Field(min_length=1, max_length=MAX_SQL_CHARS)
    # At most so many rows; unless given 1,000 as JSON, and in other formats all that fit.
    limit: int | None = Field(default=None, ge=1, le=MAX_ROWS)
    format: Format = "json"
    # Datasets that the statement does not pin are read as they were then.
    at: Moment | None = None
    # Of JSON: rows in one answer; the next ones are at `next`.
    page_rows: int = Field(default=10_000, ge=1, le=100_000)
    # Chosen by whoever wants to cancel it before it has answered. One that is used again is
    # another query, with pages of its own.
    query_id: UUID | None = None


class QueryColumn(_Payload):
    name: str
    # DuckDB's name of the type, such as UBIGINT or DECIMAL(38,0).
    type: str


class UsedDataset(_Payload):
    """What was read: `NAME@VERSION` in a statement reads the same generation again, with the rows
    that it has by then; the same name at the same moment reads the same rows."""

    name: str
    dataset_uuid: UUID
    dataset_version: UUID
    # As it was then; None: as it is.
    at: datetime | None = None
    # Columns that tell about persons, and were not shown.
    masked: list[str] = []


class QueryFacts(_Payload):
    query_id: UUID
    columns: list[QueryColumn]
    # Of all pages.
    row_count: int
    # True only when the query has more rows than these.
    truncated: bool
    elapsed_ms: float
    datasets: list[UsedDataset]


class QueryResponse(QueryFacts):
    rows: list[list[Any]]
    # Where the next page is; None after the last one. Pages are kept for some minutes.
    next: str | None = None


class QueryPage(_Payload):
    """`GET /v1/query/{answer_id}/pages/{n}`, of the user who asked."""

    rows: list[list[Any]]
    next: str | None = None


class QueryExport(QueryFacts):
    """A result as a file: `GET` the link with the same token until it expires."""

    link: str
    bytes: int
    sha256: str
    expires_at: datetime


class RunningQuery(_Payload):
    query_id: UUID
    started_at: datetime
    sql_sha256: str


class RunningQueries(_Payload):
    """`GET /v1/query`: the caller's own. `DELETE /v1/query/{query_id}` stops one."""

    queries: list[RunningQuery]


class DatasetRef(_Payload):
    """A published name, as it is now or pinned; or a generation that a token grants."""

    name: str | None = Field(default=None, max_length=512)
    version: GenerationId | None = None
    at: Moment | None = None
    dataset_version: UUID | None = None


class ResolveRequest(_Payload):
    """`POST /internal/datasets/resolve`."""

    datasets: list[DatasetRef] = Field(max_length=MAX_DATASETS)
    # False: what they are, and not where their rows lie.
    files: bool = True


class ResolvedDataset(_Payload):
    """A generation of a dataset: the committed files, all of them."""

    # What it was asked for by, which may be a name that it had once; else as `published_as`.
    name: str | None = None
    # The name that it has now: who is granted that name is granted this dataset. None: it has none.
    published_as: str | None = None
    # What it is called on record: that name, or DAG.JOB.OUTPUT.
    label: str
    dataset_uuid: UUID
    dataset_version: UUID
    # As it was then; None: as it is.
    at: datetime | None = None
    # None while nothing is committed that would tell.
    columns: list[QueryColumn] | None = None
    files: list[str] = []
    row_count: int = Field(default=0, ge=0)
    # Rows from the table's first block on are in Postgres data; `files` hold older ones.
    table: bool = False
    # Not all files have the same columns.
    mixed: bool = False
    # Columns that tell about persons.
    pii: list[str] = []
    # Those of them that it does not have, where that can be told.
    pii_missing: list[str] = []
    # Of an older generation: columns that the dataset still has, and does not say to be personal.
    # Where something in `pii` is no column, all others are masked.
    not_personal: list[str] = []


class ResolveResponse(_Payload):
    """In the order of the request. What cannot be resolved is the answer's error: unknown_dataset
    (facts: `name`, `suggestions`), generation_purged, not_found."""

    datasets: list[ResolvedDataset]


class DatasetSummary(_Payload):
    """What a user may see of a dataset: everything but where its files are."""

    name: str
    dataset_uuid: UUID
    dataset_version: UUID
    columns: list[QueryColumn] | None
    row_count: int
    # They were not counted.
    rows_estimated: bool = False
    description: str | None = None
    pii: list[str] = []
    state: DatasetState
    newest_at: datetime | None


class DatasetList(_Payload):
    """`GET /v1/datasets` of the query service, and `GET /internal/datasets`."""

    datasets: list[DatasetSummary]


class DatasetPage(_Payload):
    """`GET /v1/datasets/{name}` of the query service, and `GET /internal/datasets/{name}`."""

    columns: list[QueryColumn] | None
    detail: DatasetDetail
    versions: list[Generation]
    # The first of them.
    partitions: Partitions
    lineage: Lineage


class QueryRecord(_Payload):
    """One query, for those who look after the service: never its text, never a value. Datasets are
    called as they were called when it was asked, whatever the statement called them."""

    query_id: UUID
    # The name of a user, or `task:` and its id.
    caller: str = Field(max_length=256)
    kind: Literal["user", "task"]
    sql_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    format: Format
    datasets: list[UsedDataset] = Field(max_length=MAX_DATASETS)
    # By dataset, as it is called among `datasets`: columns that tell about persons, and were shown.
    pii: dict[str, list[str]] = {}
    row_count: int = Field(ge=0)
    # Of the answer.
    bytes: int = Field(ge=0)
    elapsed_ms: float = Field(ge=0)
    started_at: datetime
    # None: it was answered. Else the code of the error.
    error: str | None = Field(default=None, max_length=64)


class RecordQueries(_Payload):
    """`POST /internal/queries`. One that is known already changes nothing."""

    queries: list[QueryRecord] = Field(max_length=1_000)


class QueryHistory(_Payload):
    """`GET /v1/queries` of the query service (the caller's own), `GET /internal/queries`; the
    newest first."""

    queries: list[QueryRecord]
