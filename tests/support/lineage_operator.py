"""`lineage`: an operator whose output says which revisions of which jobs it was made by.

A reader of two datasets can tell from their files alone whether versions of a DAG were mixed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import BadInput
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.io.parquet_file import WrittenFile
from trace_platform.operators.staging import seal_output
from trace_platform.wire.task import OutputCommit


class Config(OperatorConfig):
    job: str
    revision: int
    # Fails for good while this file is there.
    fails: str | None = None


class Lineage:
    name: ClassVar[str] = "lineage"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None

    def run(self, task: TaskContext) -> Result:
        if task.config.fails is not None and Path(task.config.fails).exists():
            raise BadInput(f"{task.config.fails} is there")
        return Result(outputs=[_commit(task, index) for index in range(len(task.outputs))])


def revisions(content: dict[str, Any]) -> set[tuple[str, int]]:
    """Every job that had a part in this content, with its revision."""
    above = [revisions(each) for each in content["inputs"]]
    return set().union({(content["job"], content["revision"])}, *above)


def _commit(task: TaskContext, index: int) -> OutputCommit:
    output, given = task.outputs[index], task.inputs[0]
    assert given.start is not None
    assert given.end is not None
    content = {
        "job": task.config.job,
        "revision": task.config.revision,
        "range": [given.start, given.end],
        "inputs": [json.loads(task.store.get(file)) for file in given.files],
    }
    body = json.dumps(content).encode()
    name = f"{output.name}_{given.start}_{given.end}.parquet"
    task.store.put(output.prefix + name, body)
    file = WrittenFile(name=name, bytes=len(body), rows=1, sha256=hashlib.sha256(body).hexdigest())
    return seal_output(
        task.store, output, BlockRange(given.start, given.end), [file], pa.schema([])
    )
