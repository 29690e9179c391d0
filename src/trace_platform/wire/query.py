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
from trace_platform.wire.fields import DatasetUuid, DatasetVersionId, RowCount
from trace_platform.wire.manifest import Merge

MAX_ROWS = 1_000_000
DEFAULT_ROWS = 1_000
MAX_SQL_CHARS = 100_000
# A statement has up to 12 bytes a character when it is sent as JSON.
MAX_REQUEST_BYTES = 2 * 2**20
# In one statement.
MAX_DATASETS = 64

Format = Literal["json", "arrow", "csv", "parquet"]
Moment = Annotated[str, Field(min_length=4, max_length=64)]
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
    sql: str = Field(
        min_length=1,
        max_length=MAX_SQL_CHARS,
        description="One statement in DuckDB's SQL: a SELECT, or one that tells of datasets or "
        "plans, such as DESCRIBE and EXPLAIN.",
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        le=MAX_ROWS,
        description="Rows to answer with at most. Unless given 1,000 as JSON, and all rows "
        "in other formats.",
    )
    format: Format = Field(default="json", description="Format of the answer.")
    at: Moment | None = Field(
        default=None,
        description="A time with its zone, or the id of a deploy, of a DAG's version or of a "
        "generation (the beginning of an id is enough). Datasets that the statement does not "
        "pin are read as they were then.",
    )
    page_rows: int = Field(
        default=10_000,
        ge=1,
        le=100_000,
        description="For JSON, rows in one answer; `next` of the answer leads to the "
        "following ones.",
    )
    query_id: UUID | None = Field(
        default=None,
        description="Id that the caller chooses, to cancel the query before it has answered. "
        "An id that is used again names another query, with an answer of its own.",
    )


class QueryColumn(_Payload):
    name: str = Field(description="Name of the column.")
    type: str = Field(description="DuckDB's name of the type, such as UBIGINT or DECIMAL(38,0).")


class UsedDataset(_Payload):
    """What was read: `NAME@VERSION` in a statement reads the same generation again, with the rows
    that it has by then; the same name at the same moment reads the same rows."""

    name: str = Field(description="Name under which the dataset was read.")
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    at: datetime | None = Field(
        default=None,
        description="The moment as of which it was read; null when it was read as it is.",
    )
    masked: list[str] = Field(
        default=[], description="Columns with personal data whose values were not shown."
    )


class QueryFacts(_Payload):
    query_id: UUID = Field(description="Id of the query.")
    columns: list[QueryColumn] = Field(description="The columns of the answer, in order.")
    row_count: int = Field(description="Number of rows on all pages.")
    truncated: bool = Field(description="Whether the query has more rows than these.")
    elapsed_ms: float = Field(description="Milliseconds that the query took in the service.")
    datasets: list[UsedDataset] = Field(description="The datasets that were read.")


class QueryResponse(QueryFacts):
    rows: list[list[Any]] = Field(
        description="The rows, each a list of values in the order of `columns`. Nothing is "
        "rounded: decimals and integers of more than 64 bits are strings, bytes are hex with "
        "0x, times are ISO 8601, NaN and the infinities are strings."
    )
    next: str | None = Field(
        default=None,
        description="Path of the next page, which is kept for some minutes; null on the last page.",
    )


class QueryPage(_Payload):
    """`GET /v1/query/{answer_id}/pages/{n}`, of the user who asked."""

    rows: list[list[Any]] = Field(
        description="The rows of this page, each a list of values in the order of the "
        "answer's `columns`."
    )
    next: str | None = Field(
        default=None, description="Path of the next page; null on the last page."
    )


class QueryExport(QueryFacts):
    """A result as a file: `GET` the link with the same token until it expires."""

    link: str = Field(description="Path of the file, to be read with the same token.")
    bytes: int = Field(description="Size of the file in bytes.")
    sha256: str = Field(description="SHA-256 of the file, in hex.")
    expires_at: datetime = Field(description="When the file is deleted.")


class RunningQuery(_Payload):
    query_id: UUID = Field(description="Id of the query.")
    started_at: datetime = Field(description="When the query started.")
    sql_sha256: str = Field(description="SHA-256 of the statement, in hex.")


class RunningQueries(_Payload):
    """`GET /v1/query`: the caller's own. `DELETE /v1/query/{query_id}` stops one."""

    queries: list[RunningQuery] = Field(description="The caller's queries that run.")


class DatasetRef(_Payload):
    """A published name, as it is now or pinned; or a generation that a token grants."""

    name: str | None = Field(
        default=None,
        max_length=512,
        description="Published name of the dataset, or DAG.JOB.OUTPUT; null where "
        "`dataset_version` says it.",
    )
    version: GenerationId | None = Field(
        default=None,
        description="Id of a generation, or the beginning of one; the one that readers see "
        "unless given.",
    )
    at: Moment | None = Field(
        default=None,
        description="A time with its zone, or the id of a deploy, of a DAG's version or of a "
        "generation. The dataset is read as it was then.",
    )
    dataset_version: UUID | None = Field(
        default=None,
        description="Id of the generation that a task's token grants; null where `name` says it.",
    )


class ResolveRequest(_Payload):
    """`POST /internal/datasets/resolve`."""

    datasets: list[DatasetRef] = Field(
        max_length=MAX_DATASETS,
        description="The datasets that a statement names, or that a task's token grants.",
    )
    files: bool = Field(
        default=True,
        description="Whether to say where the rows lie, and not only what the datasets are.",
    )


class ResolvedDataset(_Payload):
    """A generation of a dataset: the committed files, all of them."""

    name: str | None = Field(
        default=None,
        description="The name that was asked for, which the dataset may have had once; null "
        "when a generation was.",
    )
    published_as: str | None = Field(
        default=None,
        description="The name that the dataset has now. Who is granted this name is granted "
        "the dataset. Null when it is not published.",
    )
    label: str = Field(
        description="What the dataset is called on record: its published name, or DAG.JOB.OUTPUT."
    )
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    at: datetime | None = Field(
        default=None,
        description="The moment as of which it is read; null when it is read as it is.",
    )
    columns: list[QueryColumn] | None = Field(
        default=None, description="The columns; null while nothing is committed that would tell."
    )
    files: list[str] = Field(
        default=[], description="URIs of the committed Parquet files, all of them."
    )
    row_count: RowCount = Field(default=0, ge=0)
    table: bool = Field(
        default=False,
        description="Whether rows from the table's first block on are in Postgres, and "
        "`files` hold older ones.",
    )
    mixed: bool = Field(default=False, description="Whether the files differ in their columns.")
    merges: dict[str, Merge] = Field(
        default={},
        description="Of a fold, whose files hold partial results: by column how those of one key, "
        "which is what the other columns are, become one.",
    )
    pii: list[str] = Field(default=[], description="Names of the columns that hold personal data.")
    pii_missing: list[str] = Field(
        default=[],
        description="Those of `pii` that are no columns of the dataset, where that can be told.",
    )
    not_personal: list[str] = Field(
        default=[],
        description="For an older generation, the columns that the dataset still has and "
        "does not call personal. All others are masked when something in `pii` is no column.",
    )


class ResolveResponse(_Payload):
    """In the order of the request. What cannot be resolved is the answer's error: unknown_dataset
    (facts: `name`, `suggestions`), generation_purged, not_found."""

    datasets: list[ResolvedDataset] = Field(
        description="The datasets, in the order of the request."
    )


class DatasetSummary(_Payload):
    """What a user may see of a dataset: everything but where its files are."""

    name: str = Field(description="Published name of the dataset.")
    dataset_uuid: DatasetUuid
    dataset_version: UUID = Field(description="Id of the generation that readers see.")
    columns: list[QueryColumn] | None = Field(
        description="The columns; null while nothing is committed that would tell."
    )
    row_count: RowCount
    rows_estimated: bool = Field(
        default=False, description="Whether the rows were estimated and not counted."
    )
    description: str | None = Field(
        default=None,
        description="What the dataset holds, as its DAG says; null when it says nothing.",
    )
    pii: list[str] = Field(default=[], description="Names of the columns that hold personal data.")
    state: DatasetState = Field(
        description="Whether the dataset is up to date, will be, or needs somebody to act."
    )
    newest_at: datetime | None = Field(
        description="When the generation's newest commit or event was; null when there was none."
    )


class DatasetList(_Payload):
    """`GET /v1/datasets` of the query service, and `GET /internal/datasets`."""

    datasets: list[DatasetSummary] = Field(description="The published datasets, by name.")


class DatasetPage(_Payload):
    """`GET /v1/datasets/{name}` of the query service, and `GET /internal/datasets/{name}`."""

    columns: list[QueryColumn] | None = Field(
        description="The columns with the types that queries see; null while nothing is "
        "committed that would tell."
    )
    detail: DatasetDetail = Field(description="What is known of the dataset.")
    versions: list[Generation] = Field(description="Its generations, the newest first.")
    partitions: Partitions = Field(description="The first of its partitions.")
    lineage: Lineage = Field(description="What it comes from, and what is made of it.")


class QueryRecord(_Payload):
    """One query, for those who look after the service: never its text, never a value. Datasets are
    called as they were called when it was asked, whatever the statement called them."""

    query_id: UUID = Field(description="Id of the query.")
    caller: str = Field(
        max_length=256, description="Name of the user who asked, or `task:` and the id of the task."
    )
    kind: Literal["user", "task"] = Field(description="Whether a user asked or a task.")
    sql_sha256: str = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the statement, in hex. The statement itself is never kept.",
    )
    format: Format = Field(description="Format of the answer.")
    datasets: list[UsedDataset] = Field(
        max_length=MAX_DATASETS,
        description="The datasets that were read, by the names that they had at that time.",
    )
    pii: dict[str, list[str]] = Field(
        default={}, description="Columns with personal data whose values were shown, by dataset."
    )
    row_count: RowCount = Field(ge=0)
    bytes: int = Field(ge=0, description="Size of the answer in bytes.")
    elapsed_ms: float = Field(ge=0, description="Milliseconds that the query took in the service.")
    started_at: datetime = Field(description="When the query started.")
    error: str | None = Field(
        default=None,
        max_length=64,
        description="Stable code of the error; null when the query was answered.",
    )


class RecordQueries(_Payload):
    """`POST /internal/queries`. One that is known already changes nothing."""

    queries: list[QueryRecord] = Field(
        max_length=1_000, description="The queries to put on record."
    )


class QueryHistory(_Payload):
    """`GET /v1/queries` of the query service (the caller's own), `GET /internal/queries`; the
    newest first."""

    queries: list[QueryRecord] = Field(description="The queries, the newest first.")
