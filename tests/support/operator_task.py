"""A TaskContext as the worker would make it, with outputs in a directory of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.contract import TaskContext
from trace_platform.wire.task import TaskInput, TaskOutput

TABLES = ("blocks", "transactions", "logs")


def no_spark() -> Any:
    raise AssertionError("this operator needs no Spark")


def operator_task(
    config: Any,
    blocks: BlockRange,
    store: Path,
    *,
    outputs: tuple[str, ...] = TABLES,
    spark: Callable[[], Any] = no_spark,
    url: str = "",
    check: Callable[[], None] = lambda: None,
) -> TaskContext:
    task_id = uuid4()
    return TaskContext(
        task_id=task_id,
        attempt=1,
        config=config,
        inputs=(
            TaskInput(
                input_index=0,
                dataset_uuid=uuid4(),
                dataset_version=uuid4(),
                partition_key=blocks.key,
                start=blocks.start,
                end=blocks.end,
            ),
        ),
        outputs=tuple(
            TaskOutput(
                output_index=i,
                name=name,
                dataset_uuid=uuid4(),
                dataset_version=uuid4(),
                prefix=f"s3://data/{name}/{task_id}/1/",
            )
            for i, name in enumerate(outputs)
        ),
        store=LocalStore(str(store)),
        spark=spark,
        rpc=lambda _: RpcEndpoint(url),
        check=check,
    )
