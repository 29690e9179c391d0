"""The same operator on a real standalone cluster: the same files as on one machine, and nothing
lost or counted twice when an executor, a node or the driver is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.integration.conftest import Ingest, settled_progress
from tests.support.own_code import marks_of_versions
from tests.support.raising_source import PLACES, SAID
from tests.support.scripted_rpc import ScriptedRpc, scripted_rpc
from tests.support.spark_cluster import SparkCluster, give_secret, spark_cluster
from tests.support.stack import trace, wait_for
from tests.support.tiny_chain import TinyChain
from trace_platform.app import doctor
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.settings import Settings, SparkSettings
from trace_platform.cli import app
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import MalformedBlock, TaskCanceled, Unavailable
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.operators.spark.failures import readable_failures
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.manifest import Manifest

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

BLOCKS = BlockRange(0, 15)
# Cut into this many parts: by two cores, or by two that are not there yet.
BATCH = 4


@dataclass
class Gate:
    """A node that holds its answers back: an attempt that asks it stays in the midst of a write."""

    chain: TinyChain = field(default_factory=lambda: TinyChain(BLOCKS.end + 1))
    # Blocks from here on are answered only once it is open.
    closed_from: int = 2
    opened: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)
    # Numbers of the parts that wait here: each has its files open.
    parts: set[int] = field(default_factory=set)
    # Called when a block is asked for that is held back.
    on_ask: Callable[[], None] = lambda: None

    def answer(self, method: str, params: list[Any]) -> Any:
        if method == "eth_getBlockByNumber" and int(params[0], 16) >= self.closed_from:
            with self.changed:
                self.parts.add(int(params[0], 16) // BATCH)
                self.changed.notify_all()
            self.on_ask()
            self.opened.wait()
        return self.chain.answer(method, params)

    def until_asked(self, parts: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.parts) >= parts, 120), "nobody asked"


@contextmanager
def node_behind(gate: Gate) -> Iterator[ScriptedRpc]:
    with scripted_rpc(gate.answer) as node:
        try:
            yield node
        finally:
            gate.opened.set()


@pytest.fixture(scope="module")
def local_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Manifest, list[bytes]]]:
    """By table, what one machine promises and writes."""
    folder = tmp_path_factory.mktemp("local")
    ingest = Ingest(SparkRuntime(folder / "spark", master="local[2]"), folder / "store")
    try:
        with scripted_rpc(TinyChain(BLOCKS.end + 1).answer) as node:
            task = ingest.task(node.url, BLOCKS, batch_blocks=BATCH)
            ingest.run_task(task)
        return promised_files(ingest, task)
    finally:
        ingest.runtime.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, local_run: Any) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def runtime(
    cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkRuntime]:
    made = SparkRuntime(
        tmp_path_factory.mktemp("driver"),
        master=cluster.url,
        conf=cluster.conf,
        secret=cluster.secret,
    )
    yield made
    made.stop()


@pytest.fixture
def ingest(runtime: SparkRuntime, cluster: SparkCluster, tmp_path: Path) -> Ingest:
    runtime.warm_up()
    wait_for("two executors", lambda: len(cluster.executors()) == 2)
    tracker = runtime.session().sparkContext._jsc.sc().statusTracker()
    wait_for("both to be known to the driver", lambda: len(tracker.getExecutorInfos()) == 1 + 2)
    return Ingest(runtime, tmp_path / "store")


def promised_files(ingest: Ingest, task: TaskContext) -> dict[str, tuple[Manifest, list[bytes]]]:
    found = {}
    for index, output in enumerate(task.outputs):
        manifest = ingest.manifest(task, index)
        bodies = [task.store.get(output.prefix + file.name) for file in manifest.files]
        found[output.name] = manifest, bodies
    return found


def assert_same_rows(
    ingest: Ingest, task: TaskContext, local: dict[str, tuple[Manifest, list[bytes]]]
) -> None:
    """Byte for byte: names may differ by the suffix of a part that was written again."""
    for table, (manifest, bodies) in promised_files(ingest, task).items():
        assert bodies == local[table][1]
        assert manifest.rows == local[table][0].rows
        ranges = [file.name.split(".")[0] for file in manifest.files]
        assert ranges == [file.name.split(".")[0] for file in local[table][0].files]


def left_over(ingest: Ingest, task: TaskContext) -> set[str]:
    """Files of the attempt that no manifest promises."""
    found = set()
    for index, output in enumerate(task.outputs):
        listed = {uri.removeprefix(output.prefix) for uri in task.store.list(output.prefix)}
        promised = {file.name for file in ingest.manifest(task, index).files}
        found |= listed - promised - {"_manifest.json", "_SUCCESS"}
    return found


def test_a_cluster_writes_the_same_bytes_as_one_machine(
    ingest: Ingest, local_run: dict[str, tuple[Manifest, list[bytes]]]
) -> None:
    with scripted_rpc(TinyChain(BLOCKS.end + 1).answer) as node:
        task = ingest.task(node.url, BLOCKS, batch_blocks=BATCH)
        ingest.run_task(task)
    assert promised_files(ingest, task) == local_run
    assert left_over(ingest, task) == set()


@contextmanager
def half_written(
    ingest: Ingest, gate: Gate, tag: str = "killed", waiting: int = 2
) -> Iterator[tuple[TaskContext, Callable[[], Result]]]:
    """An attempt whose Spark tasks have opened their files and wait for the node."""
    with node_behind(gate) as node, ThreadPoolExecutor(1) as pool:
        task = ingest.task(node.url, BLOCKS, batch_blocks=BATCH, timeout_s=600)
        running = pool.submit(ingest.run_task, task, tag=tag)
        gate.until_asked(waiting)
        yield task, lambda: running.result(300)


@pytest.mark.parametrize("victim", ["executor", "node"])
def test_a_killed_part_of_the_cluster_loses_nothing(
    victim: str,
    ingest: Ingest,
    cluster: SparkCluster,
    local_run: dict[str, tuple[Manifest, list[bytes]]],
) -> None:
    gate = Gate()
    with half_written(ingest, gate) as (task, result):
        if victim == "executor":
            os.kill(cluster.executors()[0], signal.SIGKILL)
        else:
            cluster.workers.pop(0).kill()
            cluster.add_worker()
        gate.opened.set()
        result()
    assert_same_rows(ingest, task, local_run)
    written_again = [
        file.name
        for manifest, _ in promised_files(ingest, task).values()
        for file in manifest.files
        if file.name.count(".") == 2
    ]
    assert written_again, "nothing was killed in the midst of a write"
    assert left_over(ingest, task), "the killed task left no file"


@pytest.mark.parametrize("place", PLACES)
def test_a_named_error_of_a_far_executor_arrives_whole(place: str, ingest: Ingest) -> None:
    with pytest.raises(MalformedBlock) as caught, readable_failures(lambda: None):
        PLACES[place](ingest.runtime.session())
    assert caught.value.__reduce__() == SAID.__reduce__()


def test_executors_elsewhere_have_the_version_of_the_code_that_a_task_has(
    ingest: Ingest, tmp_path: Path
) -> None:
    assert marks_of_versions(ingest.runtime, tmp_path, 1, 2, 1) == [1, 2, 1]


def test_an_executor_that_is_lost_again_and_again_fails_the_task_readably(
    ingest: Ingest, cluster: SparkCluster
) -> None:
    gate = Gate(on_ask=cluster.kill_executors)
    with (
        half_written(ingest, gate, waiting=1) as (task, result),
        pytest.raises(Unavailable) as caught,
    ):
        result()
    assert caught.value.retryable
    assert caught.value.message.startswith("Spark lost the executor of a task 4 times: ")
    assert "\n" not in caught.value.message
    assert task.store.size(task.outputs[0].prefix + "_SUCCESS") is None


def test_a_killed_driver_takes_its_executors_along_and_the_next_attempt_completes(
    ingest: Ingest, cluster: SparkCluster, local_run: dict[str, tuple[Manifest, list[bytes]]]
) -> None:
    before, gate = cluster.executors(), Gate()
    pid = ingest.runtime.jvm_pid
    assert pid is not None
    with half_written(ingest, gate) as (_, result):
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="JVM"):
            result()
        assert ingest.runtime._jvm is not None
        ingest.runtime._jvm.wait(30)
        wait_for("their end", lambda: not set(before) & set(cluster.executors()))
        wait_for("the end of their Python", lambda: not cluster.python_workers())
    with scripted_rpc(TinyChain(BLOCKS.end + 1).answer) as node:
        task = ingest.task(node.url, BLOCKS, batch_blocks=BATCH)
        ingest.run_task(task)
    assert_same_rows(ingest, task, local_run)


def test_progress_and_cancel_reach_the_cluster_and_leave_nothing_running(
    ingest: Ingest, cluster: SparkCluster
) -> None:
    gate = Gate()
    with half_written(ingest, gate, "cancelled") as (task, result):
        assert settled_progress(ingest.runtime, "cancelled") == (0, 4)
        ingest.runtime.cancel("cancelled")
        with pytest.raises(TaskCanceled):
            result()
        assert_idle(ingest.runtime)
    assert task.store.size(task.outputs[0].prefix + "_SUCCESS") is None


def assert_idle(runtime: SparkRuntime) -> None:
    tracker = runtime.session().sparkContext._jsc.sc().statusTracker()
    wait_for("no job", lambda: len(tracker.getActiveJobIds()) == 0)
    wait_for(
        "no running task", lambda: sum(e.numRunningTasks() for e in tracker.getExecutorInfos()) == 0
    )


def test_the_doctor_asks_the_executors(
    runtime: SparkRuntime, cluster: SparkCluster, tmp_path: Path
) -> None:
    runtime.stop()
    home = Home(tmp_path / "home")
    settings = Settings(spark=SparkSettings(master=cluster.url, conf=cluster.conf))
    unknown = doctor.check_spark(home, settings)
    assert (unknown.level, unknown.detail) == (
        "fail",
        f"this home does not know the secret of {cluster.url}",
    )
    give_secret(home, cluster)
    found = doctor.check_spark(home, settings)
    assert (found.level, "tasks ran on" in found.detail) == ("ok", True)
    greedy = {**cluster.conf, "spark.executor.memory": "64g"}
    with pytest.raises(Unavailable, match="gave no executor within 3 s"):
        probe(cluster, greedy, tmp_path)


def probe(cluster: SparkCluster, conf: dict[str, str], folder: Path) -> None:
    from trace_platform.operators.spark.probe import Needs, probe_cluster

    needs = Needs(folder)
    probe_cluster(cluster.url, conf, folder / "scratch", needs, cluster.secret, patience_s=3)


@pytest.mark.stack
def test_an_instance_runs_its_dag_on_the_cluster(
    runtime: SparkRuntime, cluster: SparkCluster, tmp_path: Path
) -> None:
    """`trace demo` as it is, with a master in its settings."""
    runtime.stop()
    home = tmp_path / "home"
    give_secret(Home(home), cluster)
    conf = ", ".join(f'"{name}" = "{value}"' for name, value in cluster.conf.items())
    (home / "config.toml").write_text(f'[spark]\nmaster = "{cluster.url}"\nconf = {{ {conf} }}\n')
    with trace(home, "demo", "--blocks", "500") as stack:
        wait_for("the end of the ingest", lambda: "Running." in stack.text(), 240)
        shown = CliRunner().invoke(app, ["status", "--home", str(home)])
        assert f"spark: {cluster.url}, application app-" in shown.output
        assert cluster.executors() != []
        numbers = stack.query("SELECT block_number FROM blocks ORDER BY 1")
        assert numbers == [[n] for n in range(500)]
        stack.stop()
    wait_for("the end of the executors", lambda: cluster.executors() == [])
