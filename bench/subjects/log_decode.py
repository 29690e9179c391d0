"""`log_decode` as the worker runs it: one attempt after the other in one warm session."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.subjects.serve import Work, serve
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.decode.log_decode import Config, LogDecode
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.task import TaskInput, TaskOutput


@contextmanager
def prepared(scratch: str) -> Iterator[Work]:
    runtime = SparkRuntime(scratch)
    runtime.warm_up()

    def work(request: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        with runtime.task_thread(f"bench-{uuid4()}") as spark:
            commits = LogDecode().run(_task(request, spark)).outputs
        wall_s = time.perf_counter() - started
        shutil.rmtree(request["output"])
        return {"wall_s": wall_s, "rows": commits[0].row_count}

    try:
        yield work
    finally:
        runtime.stop()


def _task(request: dict[str, Any], spark: Any) -> TaskContext:
    config = Config.model_validate({"abis": ["erc20.Transfer"]})
    end, folder = request["end"], Path(request["folder"])
    read = TaskInput(
        input_index=0,
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        partition_key=f"0-{end}",
        start=0,
        end=end,
        files=sorted(f"s3:/{file}" for file in folder.glob("*.parquet")),
    )
    return TaskContext(
        task_id=uuid4(),
        attempt=1,
        config=config,
        inputs=(read,),
        outputs=tuple(_output(n, name, request) for n, name in enumerate(config.outputs())),
        store=LocalStore("/"),
        spark=spark,
        rpc=lambda _: RpcEndpoint(""),
        check=lambda: None,
    )


def _output(index: int, name: str, request: dict[str, Any]) -> TaskOutput:
    return TaskOutput(
        output_index=index,
        name=name,
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        prefix=f"s3:/{request['output']}/{uuid4()}/",
    )


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
