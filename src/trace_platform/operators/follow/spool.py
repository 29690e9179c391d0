"""The rows of a range that is read whole before any of it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import Any

import pyarrow as pa

from trace_platform.operators.evm.fetch import Chunk
from trace_platform.operators.evm.schema import DEFAULT_TABLES, TABLES

# Per table. Larger ones wait on disk.
_IN_MEMORY_BYTES = 32 * 2**20


class Spool:
    """Memory stays bounded whatever the range; the files go when it is closed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._files: dict[str, Any] = {
            table: self._stack.enter_context(SpooledTemporaryFile(_IN_MEMORY_BYTES))  # noqa: SIM115
            for table in DEFAULT_TABLES
        }
        self._writers: dict[str, Any] = {
            table: self._stack.enter_context(pa.ipc.new_stream(self._files[table], TABLES[table]))
            for table in DEFAULT_TABLES
        }
        self.hashes: list[tuple[int, bytes]] = []
        self.first_parent = b""
        self.first_hash = b""

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, chunk: Chunk) -> None:
        if not self.hashes:
            self.first_parent = chunk.blocks["parent_hash"][0].as_py()
            self.first_hash = chunk.blocks["block_hash"][0].as_py()
        self.hashes.extend(hashes_of(chunk))
        for table, writer in self._writers.items():
            writer.write_batch(getattr(chunk, table))

    def batches(self, table: str) -> Iterator[pa.RecordBatch]:
        """Once: after all was added."""
        self._writers[table].close()
        file = self._files[table]
        file.seek(0)
        with pa.ipc.open_stream(file) as reader:
            yield from reader


def hashes_of(chunk: Chunk) -> list[tuple[int, bytes]]:
    numbers = chunk.blocks["block_number"].to_pylist()
    return list(zip(numbers, chunk.blocks["block_hash"].to_pylist(), strict=True))
