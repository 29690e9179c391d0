"""The bytes of one answer: in memory, and on disk when there are many."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from trace_platform.domain.errors import QueryTooLarge
from trace_platform.query.service.disk_full import disk_full

_IN_MEMORY_BYTES = 8 << 20
_READ_BYTES = 1 << 20


class Spool:
    """Holds all of an answer before the first byte of it is sent, so that what is said of it is
    true: its length, whether there was more, and that no error came at the end."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(folder))  # noqa: SIM115
        self._max_bytes = max_bytes
        self._reading = threading.Lock()
        # Where each chunk ends.
        self._ends: list[int] = []

    def write(self, chunk: bytes) -> None:
        """Raise QueryTooLarge when there is more than may be, DiskFull when there is no room."""
        size = self.size + len(chunk)
        if size > self._max_bytes:
            raise QueryTooLarge(
                f"the result is larger than {self._max_bytes >> 20} MiB",
                hint="select fewer columns or rows, aggregate, or let the query_export operator"
                " write it",
            )
        with disk_full("an answer"):
            self._file.write(chunk)
        self._ends.append(size)

    @property
    def size(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def chunks(self) -> int:
        return len(self._ends)

    def chunk(self, number: int) -> Iterator[bytes]:
        """One chunk, in parts. Several threads may read."""
        start, end = self._ends[number - 1] if number else 0, self._ends[number]
        yield from self._parts(start, end)

    def chunk_size(self, number: int) -> int:
        return self._ends[number] - (self._ends[number - 1] if number else 0)

    def read(self) -> Iterator[bytes]:
        """All of it."""
        yield from self._parts(0, self.size)

    def _parts(self, start: int, end: int) -> Iterator[bytes]:
        for at in range(start, end, _READ_BYTES):
            with self._reading:
                self._file.seek(at)
                part = self._file.read(min(_READ_BYTES, end - at))
            yield part

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for part in self.read():
            digest.update(part)
        return digest.hexdigest()

    def clear(self) -> None:
        """As if nothing had been written."""
        self._file.seek(0)
        self._file.truncate()
        self._ends.clear()

    def close(self) -> None:
        self._file.close()
