"""`gather`: a `lineage` job in front of others that takes many ranges at once, which have to follow
each other, and writes them as one."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import ClassVar

import pyarrow as pa

from tests.support.lineage_operator import Config
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import BadInput
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.io.parquet_file import WrittenFile
from trace_platform.operators.staging import seal_output


class Gather:
    name: ClassVar[str] = "gather"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None

    def run(self, task: TaskContext) -> Result:
        blocks = _whole(sorted((given.start or 0, given.end or 0) for given in task.inputs))
        content = {
            "job": task.config.job,
            "revision": task.config.revision,
            "range": [blocks.start, blocks.end],
            "inputs": [],
        }
        body, output = json.dumps(content).encode(), task.outputs[0]
        name = f"{output.name}_{blocks.start}_{blocks.end}.parquet"
        task.store.put(output.prefix + name, body)
        digest = hashlib.sha256(body).hexdigest()
        file = WrittenFile(name=name, bytes=len(body), rows=1, sha256=digest)
        return Result(outputs=[seal_output(task.store, output, blocks, [file], pa.schema([]))])


def _whole(ranges: list[tuple[int, int]]) -> BlockRange:
    for (_, end), (start, _) in itertools.pairwise(ranges):
        if start != end + 1:
            raise BadInput(f"{start} follows {end}: a range is missing, or there twice")
    return BlockRange(ranges[0][0], ranges[-1][1])
