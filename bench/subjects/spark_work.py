"""The work that is measured on both sides, and the operators that do it as tasks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow.parquet as pq

from trace_platform.app import processes
from trace_platform.app.instance.home import Home
from trace_platform.domain.file_ranges import named_range, touches
from trace_platform.operators import frames, registry, scope
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.io.parquet_file import WrittenFile
from trace_platform.operators.staging import seal_output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def transformed(rows: DataFrame) -> DataFrame:
    """A tenth of the rows goes, two columns are made."""
    from pyspark.sql import functions as f

    return rows.filter("log_index % 10 <> 0").select(
        "block_number",
        "log_index",
        "address",
        "data",
        f.substring("data", 1, 4).alias("selector"),
        (f.col("amount") * 2).alias("amount"),
    )


class Transform:
    name: ClassVar[str] = "bench_transform"
    Config: ClassVar[type[OperatorConfig]] = OperatorConfig
    output_names: ClassVar[tuple[str, ...] | None] = None

    def run(self, task: TaskContext) -> Result:
        with frames.opened(task) as data:
            # Sorted rows stay sorted, as with the bare job.
            return Result(outputs=[data.write(0, transformed(data.read(0)), sort_by=())])


class LinkConfig(OperatorConfig):
    folder: str


class Link:
    """Stages the files of its blocks that are there already: what is made of them is what is
    measured."""

    name: ClassVar[str] = "bench_link"
    Config: ClassVar[type[OperatorConfig]] = LinkConfig
    output_names: ClassVar[tuple[str, ...] | None] = None

    def run(self, task: TaskContext) -> Result:
        output, files = scope.output(task, 0), []
        blocks = scope.block_range(task)
        for source in sorted(Path(task.config.folder).glob("*.parquet")):
            if (named := named_range(source.name)) is not None and not touches(named, [blocks]):
                continue
            target = Path(task.store.filesystem(output.prefix + source.name)[1])
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(source, target)
            # Nobody reads the digest of what only this measurement sees.
            footer = pq.read_metadata(source)
            size = source.stat().st_size
            files.append(WrittenFile(source.name, footer.num_rows, size, "0" * 64))
        schema: Any = footer.schema.to_arrow_schema().remove_metadata()
        return Result(outputs=[seal_output(task.store, output, blocks, files, schema)])


if __name__ == "__main__":
    registry.OPERATORS |= {
        "bench_transform": "bench.subjects.spark_work.Transform",
        "bench_link": "bench.subjects.spark_work.Link",
    }
    processes.run(sys.argv[1], Home(Path(sys.argv[2])))
