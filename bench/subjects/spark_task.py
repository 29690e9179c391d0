"""Operators as the worker runs them: one attempt after the other in one warm session."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.subjects.serve import Work, serve
from bench.subjects.spark_work import Transform
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.ingest.parquet_compact import Config as CompactConfig
from trace_platform.operators.ingest.parquet_compact import ParquetCompact
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.operators.transform.sql_transform import Config as SqlConfig
from trace_platform.operators.transform.sql_transform import SqlTransform
from trace_platform.wire.task import TaskInput, TaskOutput


@contextmanager
def prepared(scratch: str) -> Iterator[Work]:
    runtime = SparkRuntime(scratch)
    runtime.warm_up()

    def work(request: dict[str, Any]) -> dict[str, Any]:
        """`folders` of files to be read, under the root of the store."""
        started = time.perf_counter()
        for _ in range(request["repeat"]):
            operator = _operator(request)
            with runtime.task_thread(f"bench-{uuid4()}") as spark:
                operator().run(_task(request, spark))
        return {"wall_s": (time.perf_counter() - started) / request["repeat"]}

    try:
        yield work
    finally:
        runtime.stop()


def _operator(request: dict[str, Any]) -> Any:
    if request["sql"]:
        return SqlTransform
    return ParquetCompact if request["compact"] else Transform


def _config(request: dict[str, Any]) -> Any:
    if request["sql"]:
        return SqlConfig.model_validate({"mode": "map", "sql": request["sql"]})
    return CompactConfig()


def _task(request: dict[str, Any], spark: Any) -> TaskContext:
    folders, end, is_compact = request["folders"], request["end"], request["compact"]
    read = [_input(i + is_compact, end, _files(f), not is_compact) for i, f in enumerate(folders)]
    return TaskContext(
        task_id=uuid4(),
        attempt=1,
        config=_config(request),
        inputs=(*([_input(0, end, (), True)] if is_compact else ()), *read),
        outputs=tuple(_output(i, request["output"]) for i in range(len(folders))),
        store=LocalStore("/"),
        spark=spark,
        rpc=lambda _: RpcEndpoint(""),
        check=lambda: None,
    )


def _files(folder: str) -> list[str]:
    return sorted(f"s3:/{file}" for file in Path(folder).glob("*.parquet"))


def _input(index: int, end: int, files: Sequence[str], trigger: bool) -> TaskInput:
    return TaskInput(
        input_index=index,
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        partition_key=f"0-{end}",
        start=0,
        end=end,
        files=list(files),
        trigger=trigger,
        names=[Path(files[0]).parent.name] if files else [],
    )


def _output(index: int, folder: str) -> TaskOutput:
    return TaskOutput(
        output_index=index,
        name=f"table{index}",
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        prefix=f"s3:/{folder}/{uuid4()}/",
    )


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
