"""Small forks of a chain, as rows for hot tables: what a block holds follows from its fork."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from uuid import UUID, uuid4

import pyarrow as pa

from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_tables import Extent, HotTable, HotWriter

BLOCKS = pa.schema(
    [
        pa.field("block_hash", pa.binary(), nullable=False),
        pa.field("block_number", pa.int64(), nullable=False),
        pa.field("size", pa.int64()),
    ]
)
LOGS = pa.schema(
    [
        pa.field("block_number", pa.int64(), nullable=False),
        pa.field("log_index", pa.int64(), nullable=False),
        pa.field("topic0", pa.binary()),
        pa.field("value_binary", pa.binary(), nullable=False),
        pa.field("value_string", pa.string(), nullable=False),
        pa.field("value_f64", pa.float64(), nullable=False),
        pa.field("success", pa.bool_()),
        pa.field("block_hash", pa.binary(), nullable=False),
    ]
)
LOGS_PER_BLOCK = 3
MOST = 2**256 - 1


def block_hash(number: int, fork: str) -> bytes:
    return hashlib.sha256(f"{fork}:{number}".encode()).digest()


def hashes(start: int, end: int, fork: str = "a") -> list[tuple[int, bytes]]:
    return [(number, block_hash(number, fork)) for number in range(start, end + 1)]


def blocks(start: int, end: int, fork: str = "a") -> pa.RecordBatch:
    rows = [
        {"block_hash": value, "block_number": number, "size": number or None}
        for number, value in hashes(start, end, fork)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=BLOCKS)


def logs(start: int, end: int, fork: str = "a") -> pa.RecordBatch:
    """The first log of a block has the largest value, the last the smallest."""
    values = [MOST, 2**255, 0]
    rows = [
        {
            "block_number": number,
            "log_index": index,
            "topic0": value if index else None,
            "value_binary": values[index].to_bytes(32, "big"),
            "value_string": str(values[index]),
            "value_f64": float(values[index]),
            "success": [None, True, False][index],
            "block_hash": value,
        }
        for number, value in hashes(start, end, fork)
        for index in range(LOGS_PER_BLOCK)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LOGS)


class HotChain:
    """Two tables, blocks and logs, and writers for them."""

    def __init__(self, database: DataDatabase) -> None:
        self.database = database
        self.task_id = uuid4()
        self.blocks = HotTable(uuid4(), uuid4(), BLOCKS, ("block_number",))
        self.logs = HotTable(uuid4(), uuid4(), LOGS, ("block_number", "log_index"))

    @property
    def versions(self) -> list[UUID]:
        return [self.blocks.dataset_version, self.logs.dataset_version]

    def writer(self, attempt: int = 1, keep_hashes: int = 8) -> HotWriter:
        """Not yet the owner of the tables."""
        tables = [self.blocks, self.logs]
        return HotWriter(self.database, tables, self.task_id, attempt, keep_hashes)

    def extent(self) -> Extent:
        """As a newer attempt finds it, which then owns the tables."""
        with self.writer(attempt=1_000) as newer:
            return newer.take_over()

    def rows(self, start: int, end: int, fork: str = "a") -> Mapping[UUID, list[pa.RecordBatch]]:
        return {
            self.blocks.dataset_version: [blocks(start, end, fork)],
            self.logs.dataset_version: [logs(start, end, fork)],
        }

    def write(
        self, writer: HotWriter, start: int, end: int, fork: str = "a", reason: str = ""
    ) -> None:
        given = self.rows(start, end, fork)
        writer.rewrite(start, end, given, hashes(start, end, fork), reason=reason)
