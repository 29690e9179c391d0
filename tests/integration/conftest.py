"""One Spark session for all the tests that need one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.operator_task import operator_task
from tests.support.short_lived import SHORT_LIVED
from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.operators.ingest.cryo_ingest import Config, CryoIngest
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.manifest import Manifest


@pytest.fixture(scope="session")
def spark_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRuntime]:
    folder = tmp_path_factory.mktemp("spark")
    runtime = SparkRuntime(folder, master="local[2]", conf=SHORT_LIVED)
    yield runtime
    runtime.stop()


def settled_progress(runtime: SparkRuntime, tag: str) -> tuple[int, int]:
    """The progress after Spark has told its status tracker all that happened so far."""
    runtime.session().sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return runtime.progress(tag)


@dataclass
class Ingest:
    """Runs `cryo_ingest` as the worker would, and reads back what its manifests promise."""

    runtime: SparkRuntime
    store: Path

    def task(self, url: str, blocks: BlockRange, **config: Any) -> TaskContext:
        settings = Config.model_validate({"chain_id": 31337, "rpc_pool": "test", **config})
        return operator_task(settings, blocks, self.store, url=url)

    def run(self, url: str, blocks: BlockRange, **config: Any) -> dict[str, pa.Table]:
        task = self.task(url, blocks, **config)
        result = self.run_task(task)
        return {output.name: self.read(task, i, result) for i, output in enumerate(task.outputs)}

    def run_task(
        self, task: TaskContext, check: Callable[[], None] = lambda: None, tag: str = "ingest"
    ) -> Result:
        with self.runtime.task_thread(tag) as spark:
            return CryoIngest().run(replace(task, spark=spark, check=check))

    def manifest(self, task: TaskContext, index: int) -> Manifest:
        body = task.store.get(task.outputs[index].prefix + "_manifest.json")
        return Manifest.model_validate_json(body)

    def read(self, task: TaskContext, index: int, result: Result) -> pa.Table:
        promised = self.manifest(task, index)
        prefix = task.outputs[index].prefix
        paths = [task.store.filesystem(prefix + file.name)[1] for file in promised.files]
        table = pa.concat_tables(pq.read_table(path) for path in paths)
        assert table.num_rows == promised.rows == result.outputs[index].row_count
        return table


@pytest.fixture
def ingest(spark_runtime: SparkRuntime, tmp_path: Path) -> Ingest:
    return Ingest(spark_runtime, tmp_path / "store")
