"""The promise an attempt leaves beside its files: `_manifest.json`, sealed by `_SUCCESS`.

`_SUCCESS` holds the SHA-256 of the manifest's bytes and is written last, so a prefix with a
matching `_SUCCESS` is complete.
"""

from __future__ import annotations

import builtins
import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MANIFEST_NAME = "_manifest.json"
SUCCESS_NAME = "_SUCCESS"


# Fits a bigint, and the difference of two of them fits too.
Count = Annotated[int, Field(ge=0, le=2**62)]


class ManifestFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        max_length=255,
        description="Name of the file within the folder.",
    )
    bytes: Count = Field(description="Size in bytes.")
    rows: Count = Field(description="Number of rows.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the file, in hex.")


# How the partial results of one key become one: a fold's files hold a row per key and range.
Merge = Literal[
    "sum", "sum_exact", "count", "min", "max", "avg", "avg_exact", "first", "last", "count_distinct"
]


class ManifestColumn(BaseModel):
    """A column of every file: its type as Arrow names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=1_000, description="Name of the column.")
    type: str = Field(
        min_length=1, max_length=100_000, description="Type of the column, as Arrow names it."
    )
    nullable: bool = Field(description="Whether the column may hold nulls.")
    merge: Merge | None = Field(
        default=None,
        description="Of a fold: how readers make one value of the partial ones of a key, which "
        "is what the columns without `merge` are. Null where rows are read as they are.",
    )


class Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    partition_key: str = Field(
        min_length=1,
        max_length=256,
        description="Key of the partition. For a block range it is START-END.",
    )
    start: Count | None = Field(
        default=None, description="First block of the partition; null when it is no block range."
    )
    end: Count | None = Field(
        default=None,
        description="Last block of the partition, included; null when it is no block range.",
    )
    files: list[ManifestFile] = Field(description="The files of the partition.")
    rows: Count = Field(description="Number of rows in all files.")
    bytes: Count = Field(description="Size of all files in bytes.")
    schema_hash: str = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the columns' names, types and nullability, in order.",
    )
    columns: list[ManifestColumn] = Field(
        default=[],
        max_length=10_000,
        description="The columns of every file. Empty when the writer did not say them; then "
        "only the hash tells one schema from another.",
    )

    @model_validator(mode="after")
    def _adds_up(self) -> Manifest:
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end come together")
        if self.start is not None and self.partition_key != f"{self.start}-{self.end}":
            raise ValueError("partition_key is not START-END of the range")
        if self.start is not None and self.end is not None and self.end < self.start:
            raise ValueError("end is before start")
        if self.rows != sum(f.rows for f in self.files):
            raise ValueError("rows is not the sum of the files' rows")
        if self.bytes != sum(f.bytes for f in self.files):
            raise ValueError("bytes is not the sum of the files' bytes")
        if len({f.name for f in self.files}) != len(self.files):
            raise ValueError("a file is listed twice")
        if len({column.name for column in self.columns}) != len(self.columns):
            raise ValueError("a column is listed twice")
        return self

    def to_bytes(self) -> builtins.bytes:
        return self.model_dump_json().encode()


def schema_hash(columns: Sequence[ManifestColumn]) -> str:
    """SHA-256 of the columns' names, types and nullability, in order."""
    said = [[column.name, column.type, column.nullable] for column in columns]
    return hashlib.sha256(json.dumps(said, separators=(",", ":")).encode()).hexdigest()


def seal(manifest: bytes) -> bytes:
    """The content of `_SUCCESS` for these manifest bytes."""
    return hashlib.sha256(manifest).hexdigest().encode() + b"\n"
