"""The same work as plain Spark, in a session with the same settings: files in, files out.

It is told the schema, so that it runs no job to find it, and compresses as we do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow.parquet as pq

from bench.subjects.serve import Work, serve
from bench.subjects.spark_work import transformed
from trace_platform.operators.spark.session import SparkRuntime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@contextmanager
def prepared(scratch: str) -> Iterator[Work]:
    runtime = SparkRuntime(scratch)
    runtime.warm_up()

    def work(request: dict[str, Any]) -> dict[str, Any]:
        spark = runtime.session()
        schemas = {folder: _schema(folder) for folder in request["folders"]}
        started = time.perf_counter()
        for _ in range(request["repeat"]):
            for folder, schema in schemas.items():
                _rewrite(spark, folder, schema, request)
        return {"wall_s": (time.perf_counter() - started) / request["repeat"]}

    try:
        yield work
    finally:
        runtime.stop()


def _rewrite(spark: SparkSession, folder: str, schema: StructType, request: dict[str, Any]) -> None:
    rows = spark.read.schema(schema).parquet(folder)
    if request["compact"]:
        keys = [name for name in ("block_number", "log_index") if name in rows.columns]
        made = rows.coalesce(1).sortWithinPartitions(*keys)
    elif request["sql"]:
        rows.createOrReplaceTempView(Path(folder).name)
        made = spark.sql(request["sql"])
    else:
        made = transformed(rows)
    options = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}
    made.write.options(**options).parquet(f"{request['output']}/{uuid4()}")


def _schema(folder: str) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pq.read_schema(next(Path(folder).glob("*.parquet"))))


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
