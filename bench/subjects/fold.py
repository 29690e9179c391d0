"""A fold as the worker runs it, and as the query service reads it: one warm session."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import msgspec

from bench.subjects.serve import Work, serve
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.operators.transform.sql_transform import Config, SqlTransform
from trace_platform.query.child.engine import Engine
from trace_platform.query.protocol.messages import Limits, Relation, Run
from trace_platform.sql.gate import check
from trace_platform.wire.task import TaskInput, TaskOutput

CONFIG = Config.model_validate(
    {
        "mode": "fold",
        "fold": {
            "by": ["token", "holder"],
            "values": {
                "balance": "sum(delta)",
                "transfers": "count()",
                "last_block": "max(block_number)",
            },
        },
        "sql": "select block_number, token, receiver as holder, value as delta from transfers"
        " union all select block_number, token, sender, concat('-', value) from transfers",
    }
)
MERGES = {"balance": "sum_exact", "transfers": "count", "last_block": "max"}


@contextmanager
def prepared(scratch: str) -> Iterator[Work]:
    runtime = SparkRuntime(scratch)
    runtime.warm_up()
    engine = Engine(Limits(), scratch)

    def attempt(request: dict[str, Any], first: int, last: int, *, merges: bool) -> int | None:
        with runtime.task_thread(f"bench-{uuid4()}") as spark:
            task = _task(request, spark, first, last, merges=merges)
            return SqlTransform().run(task).outputs[0].row_count

    def work(request: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        match request["work"]:
            case "block":
                rows = attempt(request, request["block"], request["block"], merges=False)
            case "merge":
                rows = attempt(request, request["first"], request["last"], merges=True)
            case _:
                rows = _read(engine, request)
        wall_s = time.perf_counter() - started
        shutil.rmtree(request["output"], ignore_errors=True)
        return {"wall_s": wall_s, "rows": rows}

    try:
        yield work
    finally:
        runtime.stop()


def _read(engine: Engine, request: dict[str, Any]) -> int:
    sql = f"select balance, transfers from balances where holder = from_hex('{request['holder']}')"
    files = sorted(map(str, Path(request["folder"]).glob("*.parquet")))
    pages: list[bytes] = []
    relation = Relation(view="balances", files=files, merges=MERGES)
    engine.run(check(duckdb.connect(), sql), Run(relations=[relation]), pages.append)
    return sum(len(msgspec.json.decode(page)) for page in pages)


def _task(
    request: dict[str, Any], spark: Any, first: int, last: int, *, merges: bool
) -> TaskContext:
    files = sorted(f"s3:/{file}" for file in Path(request["folder"]).glob("*.parquet"))
    wanted = [file for file in files if int(file.split("_")[-2]) >= first]
    read = TaskInput(
        input_index=0,
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        partition_key=f"{first}-{last}",
        start=first,
        end=last,
        files=[] if merges else wanted,
        names=["transfers"],
    )
    write = TaskOutput(
        output_index=0,
        name="balances",
        dataset_uuid=uuid4(),
        dataset_version=uuid4(),
        prefix=f"s3:/{request['output']}/{uuid4()}/",
        files=wanted if merges else [],
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
