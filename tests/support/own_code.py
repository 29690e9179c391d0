"""Code beside a DAG, as a worker loads it and its Spark session runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.frame_task import FrameTasks
from trace_platform.domain.own_code import Code, CodeRef, canonical
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.own.load_code import CodeLoader
from trace_platform.operators.spark.session import SparkRuntime


def loaded(folder: Path, code: Code, ref: CodeRef) -> tuple[Any, Path]:
    """The class as a worker has it, and what executors need."""
    pinned = code.pinned(ref)
    loader = CodeLoader(folder, lambda _: canonical(code.of(ref)))
    return loader.load(pinned), loader.zip_of(pinned)


def marks_of_versions(runtime: SparkRuntime, folder: Path, *versions: int) -> list[int]:
    """What executors say whose function each version's is, one task after the other."""
    tasks = FrameTasks(runtime, LocalStore(str(folder / "store")))
    found: list[int] = []
    for version in versions:
        text = (
            f"def mark(_): return {version}\n\n\nclass Op:\n    def run(self, task):\n"
            "        numbers = task.spark().sparkContext.parallelize([0, 1], 2)\n"
            "        return sorted(set(numbers.map(mark).collect()))\n"
        )
        code = Code({"my_ops.py": text})
        operator, py_file = loaded(folder / "code", code, CodeRef("my_ops.py", "Op"))
        with tasks.task([], [], py_file=py_file) as task:
            found += operator().run(task)
    return found
