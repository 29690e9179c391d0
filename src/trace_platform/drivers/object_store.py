"""Where immutable files live."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from pyarrow.fs import FileSystem


class ObjectStore(Protocol):
    """Canonical `s3://bucket/key` URIs to bytes. Picklable: Spark's executors get a copy.

    `put` is atomic: a reader sees the whole object or none. Bulk files are written through
    `filesystem`, under a prefix that only one attempt writes.
    """

    def put(self, uri: str, body: bytes) -> None: ...

    def get(self, uri: str) -> bytes:
        """Raise NotFound when there is no such object."""

    def size(self, uri: str) -> int | None:
        """Bytes of the object, or None when there is no such object."""

    def list(self, prefix: str) -> Iterator[str]:
        """URIs of the objects under a canonical prefix, in order."""

    def delete_prefix(self, prefix: str) -> int:
        """Delete every object under a canonical prefix. How many there were: what is gone already,
        or was never there, is no error."""

    def filesystem(self, uri: str) -> tuple[FileSystem, str]:
        """The Arrow filesystem that holds the URI, and the path of it there."""
