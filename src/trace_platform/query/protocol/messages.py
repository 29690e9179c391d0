"""What a query child and its parent say to each other: frames on two pipes.

A frame is a kind (one byte), a length (four) and a body: JSON, or bytes of a result. JSON, not
pickle: a child that runs a stranger's SQL is never trusted with the parent's objects.

    Check  -> Checked | Refused
    Plan   -> Planned | Refused      only where a dataset has rows in Postgres
    Run    -> chunk* then Done, or Refused
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from trace_platform.sql.relations import Column, Described, Reference

HEADER_BYTES = 5
MESSAGE, CHUNK = b"M", b"C"
# Of a chunk, about.
CHUNK_BYTES = 1 << 20


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one query may use."""

    timeout_s: float = 60.0
    memory_mb: int = 1024
    # On disk, when memory is not enough.
    spill_mb: int = 2048
    threads: int = 2
    # Rows from Postgres, as Arrow.
    hot_mb: int = 512
    # One page of JSON.
    page_bytes: int = 64 << 20
    # How long after its time-out a query may take to stop by itself before it is killed.
    grace_s: float = 1.0


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The child's argument."""

    limits: Limits
    # Folders below which datasets' files are; the child can read no others of the machine.
    readable: list[str]
    # The one folder that it may write: spilled rows. The parent puts hot rows there.
    scratch: str


class Check(msgspec.Struct, frozen=True, tag="check"):
    """Is this one SELECT that says nothing forbidden, and what does it read?"""

    sql: str


class Checked(msgspec.Struct, frozen=True, tag="checked"):
    references: list[Reference]
    # It reads the catalog: `Run.catalog` has to say what is in it.
    reads_catalog: bool = False


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """One view of the statement: Parquet files, rows from Postgres, or both."""

    view: str
    files: list[str] = []
    # Not all files have the same columns.
    mixed: bool = False
    # Of a table: the block from which on its rows count. Files count below it.
    seam: int | None = None
    # An Arrow file with the table's rows, under the child's scratch; None when there are none.
    hot: str | None = None
    # Columns and types as DuckDB names them, where they are known; always of a table.
    columns: list[Column] = []
    # Of a table: its columns as they come from Postgres.
    hot_columns: list[Column] = []
    # Of a fold: by column how the partial results in the files become one.
    merges: dict[str, str] = {}
    # Only rows that match (wire/where.py).
    where: dict[str, Any] | None = None
    # Columns whose values are not shown.
    masked: list[str] = []
    # Where one of those is no column of the relation, only these are shown: it may be a misspelt
    # name of any other.
    not_personal: list[str] = []


class Plan(msgspec.Struct, frozen=True, tag="plan"):
    """Which rows and columns does the checked statement need of the relations that are tables?"""

    relations: list[Relation]


class Filter(msgspec.Struct, frozen=True):
    """A condition that every row that matters fulfils. A BLOB is 0x-hex."""

    column: str
    comparison: Literal["=", ">", ">=", "<", "<=", "in"]
    values: list[str | int | float | bool]


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """None of columns: all of them."""

    columns: list[str] | None = None
    filters: list[Filter] = []


class Planned(msgspec.Struct, frozen=True, tag="planned"):
    """By view, of those with `hot_columns`."""

    scans: dict[str, Scan]


class Run(msgspec.Struct, frozen=True, tag="run", kw_only=True):
    """Run the checked statement over these."""

    relations: list[Relation]
    # Of a statement that reads the catalog.
    catalog: list[Described] = []
    format: Literal["json", "arrow", "csv", "parquet"] = "json"
    # None: all rows.
    limit: int | None = None
    page_rows: int = 10_000
    timeout_s: float = 60.0


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The child is warm and confined."""

    # What the kernel took away: "landlock", "seccomp", "user".
    confined_by: list[str] = []


class Done(msgspec.Struct, frozen=True, tag="done", kw_only=True):
    """After the chunks: of JSON one per page, an array of rows each; else bytes of one file."""

    columns: list[Column]
    row_count: int
    truncated: bool
    # By view: its columns whose values were not shown.
    masked: dict[str, list[str]] = {}
    # The child has little memory left that it can still ask for: it is not to be used again.
    spent: bool = False


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    code: str
    message: str
    hint: str | None = None
    facts: dict[str, object] = {}
    # The child ran into one of its limits: it is not to be used again.
    retire: bool = False


Request = Check | Plan | Run
Reply = Ready | Checked | Planned | Done | Refused

_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_replies: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


def decode_request(body: bytes) -> Request:
    return _requests.decode(body)


def decode_reply(body: bytes) -> Reply:
    return _replies.decode(body)


def frame(message: Request | Reply) -> bytes:
    body = _encoder.encode(message)
    return MESSAGE + len(body).to_bytes(4, "big") + body


def chunk_header(size: int) -> bytes:
    return CHUNK + size.to_bytes(4, "big")
