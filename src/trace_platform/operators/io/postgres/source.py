"""The `trace_postgres` Spark data source: ranges of hot tables, read and staged as Arrow batches.

Use it through `hot_frames.py`. How Postgres is reached is an attribute of the class that `register`
makes, and travels to the executors inside of it: the password as the name of a file, which they
read. Import this module only where Spark is in use anyway.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import ClassVar
from uuid import UUID
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trace_platform.data import staging
from trace_platform.data.columns import Column, schema_of
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_reader import read_range
from trace_platform.domain.block_range import BlockRange

FORMAT = "trace_postgres"
_registered: WeakKeyDictionary[SparkSession, DataDatabase] = WeakKeyDictionary()
_registering = threading.Lock()


def register(spark: SparkSession, database: DataDatabase) -> None:
    """Once per session and database."""
    with _registering:
        if _registered.get(spark) == database:
            return
        # A class that is made here is pickled whole; an importable one would be by its name, and
        # lose the attribute on the way to an executor.
        kind = type("RegisteredPostgres", (PostgresSource,), {"database": database})
        spark.dataSource.register(kind)
        _registered[spark] = database


class PostgresSource(DataSource):
    database: ClassVar[DataDatabase]

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(schema_of(_columns(self.options["columns"])))

    def reader(self, schema: StructType) -> HotTableReader:
        return HotTableReader(self.database, self.options)

    def writer(self, schema: StructType, overwrite: bool) -> StagingWriter:
        return StagingWriter(self.database, self.options["staging"])


class _Blocks(InputPartition):
    def __init__(self, blocks: BlockRange) -> None:
        super().__init__(None)
        self.blocks = blocks


class HotTableReader(DataSourceReader):
    """Every partition joins the same snapshot: none sees another fork."""

    def __init__(self, database: DataDatabase, options: dict[str, str]) -> None:
        self._database = database
        self._version = UUID(options["version"])
        self._snapshot = options["snapshot"]
        self._columns = _columns(options["columns"])
        self._key = options["key"].split(",")
        self._ranges = [BlockRange.parse(key) for key in options["ranges"].split(",") if key]

    def partitions(self) -> list[InputPartition]:
        return [_Blocks(blocks) for blocks in self._ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Blocks):  # Spark asks for None when there are no partitions
            return
        yield from read_range(
            self._database,
            self._snapshot,
            self._version,
            self._columns,
            self._key,
            partition.blocks.start,
            partition.blocks.end,
        )


class _Staged(WriterCommitMessage):
    def __init__(self, spark_task: int, rows: int) -> None:
        self.spark_task = spark_task
        self.rows = rows


class StagingWriter(DataSourceArrowWriter):
    """A task that is tried again writes beside what it wrote before; the seal says what counts."""

    def __init__(self, database: DataDatabase, name: str) -> None:
        self._database = database
        self._name = name

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        spark_task = context.taskAttemptId()
        rows = staging.stage_rows(self._database, self._name, spark_task, iterator)
        return _Staged(spark_task, rows)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        done = {each.spark_task: each.rows for each in messages if isinstance(each, _Staged)}
        staging.seal(self._database, self._name, done)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        staging.drop(self._database, self._name)


def _columns(text: str) -> list[Column]:
    columns: list[Column] = json.loads(text)
    return columns
