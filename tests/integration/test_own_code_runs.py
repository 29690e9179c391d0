"""Code beside a DAG on a real worker: each task has the version that its generation was deployed
with, whatever else the process has loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.test_frames import given, numbers, output, rows
from tests.integration.test_worker import Rig
from tests.support.frame_task import FrameTasks
from tests.support.own_code import loaded, marks_of_versions
from tests.support.stack import wait_for
from trace_platform.domain.own_code import Code, CodeRef
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.facts import config_model
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.worker import serve

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "src" / "trace_platform" / "examples"
DAG = """
name: own
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: work
    activation: reactive
    runtime: ecs_platform
    operator: ./my_ops.py:Work
    inputs: [{ from: { job: request } }]
"""


def code(folder: Path, version: int) -> dict[str, str]:
    """An operator that says who it is, and goes on once a file is there."""
    work = f"""
import time
from pathlib import Path
from trace_platform.operators.contract import Result
from .state import NAME, SEEN

FOLDER = Path({str(folder)!r})

class Work:
    def run(self, task):
        SEEN.append(NAME)
        (FOLDER / f"started-{version}-{{task.attempt}}").touch()
        while not (FOLDER / "go").exists():
            task.check()
            time.sleep(0.01)
        (FOLDER / f"said-{version}").write_text(" ".join([NAME, *map(str, SEEN)]))
        return Result()
"""
    return {"my_ops.py": work, "state.py": f"NAME = 'version-{version}'\nSEEN = []\n"}


@pytest.fixture
def rig(state_dsns: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(serve, "MAX_BEAT_S", 0.3)
    opened = Rig(state_dsns, tmp_path)
    yield opened
    opened.close()


def start(rig: Rig, files: dict[str, str]) -> None:
    rig.dispatcher.run(lambda plane: plane.deploy(DAG, files))


def test_two_versions_in_one_process_at_once_do_not_mix(rig: Rig, tmp_path: Path) -> None:
    start(rig, code(tmp_path, 1))
    rig.dispatcher.run(lambda plane: plane.trigger(0, 9, "own", "request"))
    wait_for("the first version", lambda: (tmp_path / "started-1-1").exists())
    # Built beside it: the new generation does the same range with the new code.
    start(rig, code(tmp_path, 2))
    wait_for("the second version", lambda: (tmp_path / "started-2-1").exists())
    (tmp_path / "go").touch()
    wait_for("both", lambda: all((tmp_path / f"said-{n}").exists() for n in (1, 2)))
    assert (tmp_path / "said-1").read_text() == "version-1 version-1"
    assert (tmp_path / "said-2").read_text() == "version-2 version-2"


def test_a_worker_that_was_started_again_gets_the_code_again(
    rig: Rig, tmp_path: Path, state_dsns: Any
) -> None:
    (tmp_path / "go").touch()
    start(rig, code(tmp_path, 1))
    rig.dispatcher.run(lambda plane: plane.trigger(0, 9, "own", "request"))
    wait_for("the task", lambda: rig.sql("SELECT 1 FROM tasks WHERE status = 'Completed'"))
    assert list((tmp_path / "code-1").glob("trace_code_*.zip"))


@pytest.mark.spark
def test_the_example_runs_on_spark_with_a_function_of_its_own_file(
    spark_runtime: SparkRuntime, tmp_path: Path
) -> None:
    """Executors are processes of their own, which get the file from the session."""
    tasks = FrameTasks(spark_runtime, LocalStore(str(tmp_path / "store")))
    text = (EXAMPLES / "my_ops.py").read_text()
    assert f"```python\n{text}```" in (DOCS / "operators.md").read_text(), "the page shows it whole"
    made = Code({"my_ops.py": text})
    operator, py_file = loaded(tmp_path / "code", made, CodeRef("my_ops.py", "FullBlocks"))
    blocks = (
        rows(0, 9)
        .append_column("timestamp", pa.array(range(10)))
        .append_column("gas_used", pa.array(range(0, 1_000, 100)))
        .append_column("gas_limit", pa.array([1_000] * 10))
    )
    read_from = given(0, 0, 9, [tasks.file("blocks_0_9", blocks)])
    config = config_model(operator).model_validate({"min_share": 0.7})
    with tasks.task([read_from], [output(name="full_blocks")], config, py_file=py_file) as task:
        (commit,) = operator().run(task).outputs
    assert numbers(tasks.read(commit)) == [7, 8, 9]


@pytest.mark.spark
def test_spark_runs_the_version_that_each_task_has(
    spark_runtime: SparkRuntime, tmp_path: Path
) -> None:
    assert marks_of_versions(spark_runtime, tmp_path, 1, 2, 1) == [1, 2, 1]
