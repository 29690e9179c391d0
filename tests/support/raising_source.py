"""A Spark data source and functions that raise a named error where they run: on an executor, or in
the Python worker that plans a read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from trace_platform.domain.errors import MalformedBlock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAID = MalformedBlock(
    "block 7 is\nnot a block: 'trace_error: {}' \U0001f9f1",
    hint="the chain moved while it was read",
    block=7,
    provider="a, b",
)


def fail(*_: Any) -> Any:
    raise MalformedBlock(SAID.message, hint=SAID.hint, **SAID.facts)


class RaisingSource(DataSource):
    """Option `where`: which of its methods raises."""

    @classmethod
    def name(cls) -> str:
        return "raising"

    def schema(self) -> str:
        return fail() if self.options["where"] == "schema" else "n int"

    def reader(self, schema: object) -> DataSourceReader:
        return _Reader(self.options["where"])

    def writer(self, schema: object, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer(self.options["where"])


class _Reader(DataSourceReader):
    def __init__(self, where: str) -> None:
        self._where = where

    def partitions(self) -> list[InputPartition]:
        return fail() if self._where == "partitions" else [InputPartition(n) for n in range(3)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": pa.array([1], pa.int32())})
        if partition.value:
            fail()


class _Writer(DataSourceArrowWriter):
    def __init__(self, where: str) -> None:
        self._where = where

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        rows = sum(batch.num_rows for batch in iterator)
        return fail() if self._where == "write" and rows else WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._where == "commit":
            fail()


def _read(spark: SparkSession, where: str) -> None:
    spark.dataSource.register(RaisingSource)
    spark.read.format("raising").option("where", where).load().count()


def _write(spark: SparkSession, where: str) -> None:
    spark.dataSource.register(RaisingSource)
    spark.range(3).write.format("raising").option("where", where).mode("append").save()


def _udf(spark: SparkSession, arrow: bool) -> None:
    from pyspark.sql.functions import udf

    spark.range(3).select(udf(fail, "int", useArrow=arrow)("id")).collect()


def _wrapped(spark: SparkSession) -> None:
    def work(_: int) -> None:
        try:
            raise OSError("the socket broke")
        except OSError as error:
            raise MalformedBlock(SAID.message, hint=SAID.hint, **SAID.facts) from error

    spark.sparkContext.parallelize(range(2), 2).foreach(work)


# By the place where the error is raised.
PLACES: dict[str, Callable[[SparkSession], object]] = {
    "an RDD's function": lambda spark: spark.sparkContext.parallelize([1], 1).map(fail).collect(),
    "an RDD's function, from another error": _wrapped,
    "a UDF": lambda spark: _udf(spark, False),
    "an Arrow UDF": lambda spark: _udf(spark, True),
    "mapInArrow": lambda spark: spark.range(3).mapInArrow(fail, "n int").collect(),
    "a data source's schema": lambda spark: _read(spark, "schema"),
    "a data source's partitions": lambda spark: _read(spark, "partitions"),
    "a data source's read": lambda spark: _read(spark, "read"),
    "a data source's write": lambda spark: _write(spark, "write"),
    "a data source's commit": lambda spark: _write(spark, "commit"),
}
