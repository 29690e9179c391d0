"""One Parquet file, written as a stream: bounded memory, and its facts known at the end."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trace_platform.domain.errors import DiskFull
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.wire.parquet_writer import open_writer

# Row groups are what readers skip and decode in parallel, and what a writer holds in memory.
_GROUP_ROWS = 65_536
_GROUP_BYTES = 24 * 2**20


@dataclass(frozen=True, slots=True)
class WrittenFile:
    name: str
    rows: int
    bytes: int
    sha256: str


class ParquetFile:
    """`with` it, write batches, then `close` for the facts. A failure leaves no file behind.

    Raise UnsupportedType for columns that no file holds for all readers. `plain` are the columns
    whose values hardly repeat: for them a dictionary is lost work.
    """

    def __init__(
        self, store: ObjectStore, prefix: str, name: str, schema: pa.Schema, plain: frozenset[str]
    ) -> None:
        self._name = name
        self._schema = schema
        self._rows = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._plain = plain
        self._filesystem, self._path = store.filesystem(prefix + name)
        self._sink: _HashingSink | None = None
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> ParquetFile:
        try:
            with self._no_space():
                self._open()
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is not None:
            self._discard()

    def _open(self) -> None:
        if self._is_local:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._sink = _HashingSink(self._filesystem.open_output_stream(self._path))
        sink = pa.PythonFile(self._sink, mode="w")
        self._writer = open_writer(sink, self._schema, self._plain, level=1)

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= _GROUP_ROWS or self._waiting_bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> WrittenFile:
        if self._waiting_rows:
            self._flush()
        assert self._writer is not None
        assert self._sink is not None
        with self._no_space():
            self._writer.close()
            self._sink.close()
            if self._is_local:
                sync(self._path)
        return WrittenFile(self._name, self._rows, self._sink.size, self._sink.sha256)

    def _flush(self) -> None:
        assert self._writer is not None
        table = pa.Table.from_batches(self._waiting, self._schema)
        with self._no_space():
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._rows += table.num_rows
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _discard(self) -> None:
        if self._sink is not None:
            self._sink.broken = True
        for opened in (self._writer, self._sink):
            if opened is not None:
                with contextlib.suppress(Exception):
                    opened.close()
        with contextlib.suppress(Exception):
            self._filesystem.delete_file(self._path)

    @property
    def _is_local(self) -> bool:
        return bool(self._filesystem.type_name == "local")

    @contextlib.contextmanager
    def _no_space(self) -> Any:
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise DiskFull(f"no space left to write {self._name}", hint="free some space") from None


class _HashingSink:
    """Hashes what passes through, so that no file is read again for its digest."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size = 0
        self.broken = False

    def write(self, data: Any) -> int:
        if not self.broken:  # the writer's own close would go on where the disk was full
            self._stream.write(data)
            self._digest.update(data)
            self.size += len(data)
        return len(data)

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def sync(path: str) -> None:
    """A committed file survives a power cut: its name is on disk once the store has put the
    manifest beside it."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
