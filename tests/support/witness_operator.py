"""`witness`: an operator that leaves a trace of every attempt that starts.

It says so in a file, waits at a gate if it is given one, and with `commit` writes its input's range
as a partition and emits an event that names the attempt.
"""

from __future__ import annotations

import hashlib
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.io.parquet_file import WrittenFile
from trace_platform.operators.staging import seal_output
from trace_platform.wire.task import DatasetEvent, OutputCommit


class Start(NamedTuple):
    task_id: str
    attempt: int
    pid: int
    # The worker's wall clock, asked in the two ways that Python has.
    time_s: float
    datetime_s: float


def read_starts(file: Path) -> list[Start]:
    lines = file.read_text().splitlines() if file.exists() else []
    fields = [line.split() for line in lines]
    return [Start(f[0], int(f[1]), int(f[2]), float(f[3]), float(f[4])) for f in fields]


def open_gate(gates: Path, task_id: Any, attempt: int) -> None:
    """Let this attempt go on. May be called before it gets there."""
    (gates / f"{task_id}-{attempt}").touch()


class Config(OperatorConfig):
    starts: str
    # A folder: an attempt goes on once a file of its name is there.
    gates: str | None = None
    commit: bool = False
    # Stops as soon as it is told to; else only at its end, like an operator deep in a library.
    listens: bool = True


class Witness:
    name: ClassVar[str] = "witness"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None

    def run(self, task: TaskContext) -> Result:
        _say(task)
        if task.config.gates is not None:
            _wait(task)
        if not task.config.commit:
            return Result()
        return Result(outputs=[_commit(task)], events=[_mark(task)])


def _say(task: TaskContext) -> None:
    now = f"{time.time()} {datetime.now(UTC).timestamp()}"
    line = f"{task.task_id} {task.attempt} {os.getpid()} {now}\n".encode()
    # One short write to a file opened for appending is whole, whoever else writes.
    file = os.open(task.config.starts, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def _wait(task: TaskContext) -> None:
    gate = Path(task.config.gates, f"{task.task_id}-{task.attempt}")
    while not gate.exists():
        if task.config.listens:
            task.check()
        time.sleep(0.005)


def _commit(task: TaskContext) -> OutputCommit:
    output, given = task.outputs[0], task.inputs[0]
    assert given.start is not None
    assert given.end is not None
    body = f"attempt {task.attempt}".encode()
    name = f"{output.name}_{given.start}_{given.end}.parquet"
    task.store.put(output.prefix + name, body)
    file = WrittenFile(name=name, bytes=len(body), rows=1, sha256=hashlib.sha256(body).hexdigest())
    blocks = BlockRange(given.start, given.end)
    return seal_output(task.store, output, blocks, [file], pa.schema([]))


def _mark(task: TaskContext) -> DatasetEvent:
    """An event that only this attempt can have caused."""
    output = task.outputs[1]
    return DatasetEvent(
        dataset_uuid=output.dataset_uuid,
        dataset_version=output.dataset_version,
        partition_key=f"{task.task_id}/{task.attempt}",
    )
