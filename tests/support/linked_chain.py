"""A chain whose blocks know their parents, in hot tables and in files: forks share their past."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import pyarrow as pa

from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_tables import HotTable, HotWriter
from trace_platform.wire.task import TaskInput

BLOCKS = pa.schema(
    [
        pa.field("block_number", pa.int64(), nullable=False),
        pa.field("block_hash", pa.binary(), nullable=False),
        pa.field("parent_hash", pa.binary(), nullable=False),
        pa.field("size", pa.int64()),
    ]
)
LOGS = pa.schema(
    [
        pa.field("block_number", pa.int64(), nullable=False),
        pa.field("log_index", pa.int64(), nullable=False),
        pa.field("block_hash", pa.binary(), nullable=False),
        pa.field("value_binary", pa.binary(), nullable=False),
    ]
)


class LinkedChain:
    """`forked_at`: from this block on it is another chain than the one without."""

    def __init__(self, database: DataDatabase) -> None:
        self.database = database
        self.forked_at: int | None = None
        self.blocks = HotTable(uuid4(), uuid4(), BLOCKS, ("block_number",))
        self.logs = HotTable(uuid4(), uuid4(), LOGS, ("block_number", "log_index"))

    @property
    def versions(self) -> list[UUID]:
        return [self.blocks.dataset_version, self.logs.dataset_version]

    def hash(self, number: int) -> bytes:
        fork = f"fork {self.forked_at}" if number >= (self.forked_at or 2**62) else ""
        return hashlib.sha256(f"{fork}:{number}".encode()).digest()

    def hashes(self, start: int, end: int) -> list[tuple[int, bytes]]:
        return [(number, self.hash(number)) for number in range(start, end + 1)]

    def block_rows(self, start: int, end: int) -> pa.Table:
        rows = [
            {
                "block_number": number,
                "block_hash": value,
                "parent_hash": self.hash(number - 1),
                "size": number % 3 or None,
            }
            for number, value in self.hashes(start, end)
        ]
        return pa.Table.from_pylist(rows, schema=BLOCKS)

    def log_rows(self, start: int, end: int) -> pa.Table:
        """Of every second block two."""
        rows = [
            {"block_number": n, "log_index": i, "block_hash": value, "value_binary": b"\xff" * 32}
            for n, value in self.hashes(start, end)
            for i in range(2 * (n % 2))
        ]
        return pa.Table.from_pylist(rows, schema=LOGS)

    @contextmanager
    def writer(self) -> Iterator[HotWriter]:
        made = HotWriter(self.database, [self.blocks, self.logs], uuid4(), 1, keep_hashes=1_000)
        with made:
            made.take_over()
            yield made

    def write(self, start: int, end: int) -> None:
        """Blocks `start` to `end` of the chain as it is now stand in the hot tables."""
        rows = {
            self.blocks.dataset_version: self.block_rows(start, end).to_batches(),
            self.logs.dataset_version: self.log_rows(start, end).to_batches(),
        }
        with self.writer() as writer:
            writer.rewrite(start, end, rows, self.hashes(start, end))

    def inputs(self, start: int, end: int, cold: tuple[list[str], list[str]]) -> list[TaskInput]:
        """What wakes a task, and both tables to be read with it."""
        return [
            TaskInput(
                input_index=index,
                dataset_uuid=uuid4() if table is None else table.dataset_uuid,
                dataset_version=uuid4() if table is None else table.dataset_version,
                partition_key=f"{start}-{end}",
                start=start,
                end=end,
                files=files,
                table=table is not None,
                trigger=table is None,
            )
            for index, (table, files) in enumerate(
                [(None, []), (self.blocks, cold[0]), (self.logs, cold[1])]
            )
        ]
