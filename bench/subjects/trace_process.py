"""`python -m bench.subjects.trace_process NAME HOME`: a process of Trace that also knows the
operator which stamps the moment at which it starts."""

from __future__ import annotations

import os
import struct
import sys
import time
from pathlib import Path
from typing import ClassVar

from trace_platform.app import processes
from trace_platform.app.instance.home import Home
from trace_platform.operators import registry
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext

STAMP = struct.Struct("qd")


class Config(OperatorConfig):
    pipe: str


class Stamp:
    """Writes its cursor and the time into a named pipe, first thing."""

    name: ClassVar[str] = "stamp"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None

    def run(self, task: TaskContext) -> Result:
        now = time.monotonic()
        pipe = os.open(task.config.pipe, os.O_WRONLY)
        try:
            os.write(pipe, STAMP.pack(task.inputs[0].cursor or 0, now))
        finally:
            os.close(pipe)
        return Result()


if __name__ == "__main__":
    registry.OPERATORS["stamp"] = "bench.subjects.trace_process.Stamp"
    processes.run(sys.argv[1], Home(Path(sys.argv[2])))
