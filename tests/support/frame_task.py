"""Tasks that read and write DataFrames, with files that a test has put into a store of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from trace_platform.data.database import DataDatabase
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.manifest import Manifest
from trace_platform.wire.task import OutputCommit, TaskInput, TaskOutput


@dataclass
class FrameTasks:
    runtime: SparkRuntime
    store: LocalStore
    data: DataDatabase | None = None
    log: Any = field(default_factory=list)

    def file(self, name: str, rows: pa.Table, **options: Any) -> str:
        uri = f"s3://data/in/{name}.parquet"
        path = self.path(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path, **options)
        return uri

    def path(self, uri: str) -> Path:
        return Path(self.store.filesystem(uri)[1])

    @contextmanager
    def task(
        self,
        inputs: Sequence[TaskInput],
        outputs: Sequence[TaskOutput],
        config: Any = None,
        check: Callable[[], None] = lambda: None,
        py_file: Path | None = None,
    ) -> Iterator[TaskContext]:
        with self.runtime.task_thread(f"test-{uuid4()}", py_file) as spark:
            yield TaskContext(
                task_id=uuid4(),
                attempt=1,
                config=config,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                store=self.store,
                spark=spark,
                rpc=lambda _: RpcEndpoint(""),
                check=check,
                data=lambda: self.data or DataDatabase(""),
                log=Log(self.log),
            )

    def manifest(self, commit: OutputCommit) -> Manifest:
        return Manifest.model_validate_json(self.store.get(commit.location + "_manifest.json"))

    def files(self, commit: OutputCommit) -> list[str]:
        return [commit.location + file.name for file in self.manifest(commit).files]

    def read(self, commit: OutputCommit) -> pa.Table:
        """What the manifest promises, in the order of the files."""
        table = pa.concat_tables(pq.read_table(self.path(uri)) for uri in self.files(commit))
        assert table.num_rows == self.manifest(commit).rows == commit.row_count
        return table


@dataclass
class Log:
    """Keeps the names of what was logged."""

    lines: list[str]

    def info(self, event: str, **_: Any) -> None:
        self.lines.append(event)

    warning = error = info


def given(index: int, start: int, end: int, files: Sequence[str] = (), **more: Any) -> TaskInput:
    return TaskInput(
        **{"dataset_uuid": uuid4(), "dataset_version": uuid4(), **more},
        input_index=index,
        partition_key=f"{start}-{end}",
        start=start,
        end=end,
        files=list(files),
    )


def output(index: int = 0, name: str = "out", **more: Any) -> TaskOutput:
    version: UUID = uuid4()
    return TaskOutput(
        output_index=index,
        name=name,
        dataset_uuid=uuid4(),
        dataset_version=version,
        prefix=f"s3://data/out/{version}/",
        **more,
    )
