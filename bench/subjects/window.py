"""Tasks of a `window` as the worker runs them: one attempt after the other in one warm session."""

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
from bench.window import BUCKET
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.file_ranges import named_range, touches
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.operators.transform.sql_transform import Config, SqlTransform
from trace_platform.wire.task import TaskInput, TaskOutput

CONFIG = Config.model_validate(
    {
        "mode": "window",
        "window": {"every_blocks": BUCKET},
        "sql": f"select block_bucket(block_number, {BUCKET}) as bucket, address, count(*) as logs,"
        " sum(cast(amount as decimal(38, 0))) as amount, max(log_index) as highest"
        " from logs group by all",
    }
)


@contextmanager
def prepared(scratch: str) -> Iterator[Work]:
    runtime = SparkRuntime(scratch)
    runtime.warm_up()

    def work(request: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        with runtime.task_thread(f"bench-{uuid4()}") as spark:
            rows = SqlTransform().run(_task(request, spark)).outputs[0].row_count
        wall_s = time.perf_counter() - started
        shutil.rmtree(request["output"], ignore_errors=True)
        return {"wall_s": wall_s, "rows": rows}

    try:
        yield work
    finally:
        runtime.stop()


def _task(request: dict[str, Any], spark: Any) -> TaskContext:
    blocks = BlockRange(request["start"], request["end"])
    files = sorted(f"s3:/{file}" for file in Path(request["folder"]).glob("*.parquet"))
    read = TaskInput(
        input_index=0,
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        partition_key=blocks.key,
        start=blocks.start,
        end=blocks.end,
        files=[uri for uri in files if (held := named_range(uri)) and touches(held, [blocks])],
        names=["logs"],
    )
    write = TaskOutput(
        output_index=0,
        name="buckets",
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        prefix=f"s3:/{request['output']}/{uuid4()}/",
    )
    return TaskContext(
        task_id=uuid4(),
        attempt=1,
        config=CONFIG,
        inputs=(read,),
        outputs=(write,),
        store=LocalStore("/"),
        spark=spark,
        rpc=lambda _: RpcEndpoint(""),
        check=lambda: None,
    )


if __name__ == "__main__":
    serve(prepared(*sys.argv[1:]))
