"""Our operator as the worker runs it: one attempt after the other in one warm session."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from bench.subjects.serve import Work, serve
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.evm.schema import DEFAULT_TABLES
from trace_platform.operators.ingest.cryo_ingest import Config, CryoIngest
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.task import TaskInput, TaskOutput

_CHAIN_ID = 31337


@contextmanager
def prepared(url: str, scratch: str) -> Iterator[Work]:
    runtime = SparkRuntime(scratch)
    runtime.warm_up()

    def ingest(request: dict[str, Any]) -> dict[str, Any]:
        task_id = uuid4()
        started = time.perf_counter()
        with runtime.task_thread(f"bench-{task_id}") as spark:
            CryoIngest().run(
                TaskContext(
                    task_id=task_id,
                    attempt=1,
                    config=Config(
                        chain_id=_CHAIN_ID,
                        rpc_pool="bench",
                        header_hash=request.get("header_hash", False),
                    ),
                    inputs=(_range(request["start"], request["end"]),),
                    outputs=tuple(_output(i, name) for i, name in enumerate(DEFAULT_TABLES)),
                    store=LocalStore(request["output"]),
                    spark=spark,
                    rpc=lambda _: RpcEndpoint(url),
                    check=lambda: None,
                )
            )
        return {"wall_s": time.perf_counter() - started}

    try:
        yield ingest
    finally:
        runtime.stop()


def _range(start: int, end: int) -> TaskInput:
    return TaskInput(
        input_index=0,
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        partition_key=f"{start}-{end}",
        start=start,
        end=end,
    )


def _output(index: int, name: str) -> TaskOutput:
    return TaskOutput(
        output_index=index,
        name=name,
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        prefix=f"s3://bench/{name}/",
    )


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
