"""`content` and `writer`: operators whose files say of every block what was read of it by whom."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import ClassVar, Literal

import pyarrow as pa

from tests.support.judge.world import Content, World
from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.io.parquet_file import WrittenFile
from trace_platform.operators.staging import seal_output
from trace_platform.wire.task import OutputCommit, TaskInput, TaskOutput

OPERATORS = {
    "content": "tests.support.judge.content_operator.ContentOperator",
    "writer": "tests.support.judge.content_operator.Writer",
}
# The chain that attempts of this process read.
outside = World()
_NO_COLUMNS = pa.schema([])


class Config(OperatorConfig):
    job: str
    revision: int
    # Announced ranges are read from the world; of a job's output what its files hold.
    reads: Literal["world", "files"]


class WriterConfig(OperatorConfig):
    era: int


class ContentOperator:
    name: ClassVar[str] = "content"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        read: Content = {}
        for given in task.inputs:
            read |= _from_world(given) if config.reads == "world" else _from_files(task, given)
        made = {b: [config.job, config.revision, value] for b, value in read.items()}
        return Result(outputs=[write(task.store, task.outputs[0], _hull(task.inputs), made)])


class Writer:
    """A source that runs without end. What it writes is told to it: see `write`."""

    name: ClassVar[str] = "writer"
    Config: ClassVar[type[OperatorConfig]] = WriterConfig
    output_names: ClassVar[tuple[str, ...] | None] = None

    def run(self, task: TaskContext) -> Result:
        raise AssertionError("the history says what it writes")


def _from_world(given: TaskInput) -> Content:
    return outside.read(_blocks(given))


def _from_files(task: TaskContext, given: TaskInput) -> Content:
    blocks = set(_blocks(given))
    held = [load(task.store, uri) for uri in given.files]
    return {b: value for each in held for b, value in each.items() if b in blocks}


def _blocks(given: TaskInput) -> range:
    assert given.start is not None, "every input of a judged job is a range"
    assert given.end is not None
    return range(given.start, given.end + 1)


def _hull(inputs: Iterable[TaskInput]) -> BlockRange:
    spans = [_blocks(given) for given in inputs]
    return BlockRange(min(s.start for s in spans), max(s.stop for s in spans) - 1)


def load(store: ObjectStore, uri: str) -> Content:
    return {int(block): value for block, value in json.loads(store.get(uri)).items()}


def write(
    store: ObjectStore, output: TaskOutput, span: BlockRange, content: Content
) -> OutputCommit:
    """One sealed partition in one file."""
    body = json.dumps(content).encode()
    name = f"{output.name}_{span.start}_{span.end}.parquet"
    store.put(output.prefix + name, body)
    file = WrittenFile(
        name=name, bytes=len(body), rows=len(content), sha256=hashlib.sha256(body).hexdigest()
    )
    return seal_output(store, output, span, [file], _NO_COLUMNS)
