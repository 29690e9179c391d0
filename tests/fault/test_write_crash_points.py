"""kill -9 at each step of a write: of the worker, of the JVM, of a Python worker of an executor, of
the dispatcher that commits. Nothing uncommitted is ever visible, nothing committed is lost, and
what comes out is what would have come out without the kill."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.crash_points import (
    POINTS,
    REPLY_LOST,
)
from tests.support.crash_stack import (
    CrashEngine,
    KillableWorker,
    Rows,
    Witness,
    collect_all,
    crash_engine,
    left_over,
)
from tests.support.deploy_reader import check_tables
from tests.support.killable_stack import KillableDispatcher, writes
from tests.support.pipeline import Job, dag_yaml
from tests.support.scripted_rpc import scripted_rpc
from tests.support.stack import wait_for
from tests.support.tiny_chain import TinyChain

pytestmark = pytest.mark.timeout(1200)

# A file that a Spark task has open, while its node does not answer.
GATE = "file:open"
DAG = "w"
JOBS = {"first": Job(), "second": Job(("first",))}


@dataclass
class Walk:
    """A DAG of two jobs, one fed by the other; ranges of one block each."""

    stack: CrashEngine
    dispatcher: KillableDispatcher
    worker: KillableWorker
    witness: Witness
    blocks: int = 0

    def emit(self) -> int:
        block = self.blocks
        self.stack.emit_ranges(self.dispatcher.port, f"{DAG}.source", [(block, block)])
        self.blocks += 1
        return block

    def check(self) -> None:
        """All is settled: every range once, in both, as it would be without a kill."""
        assert self.witness.look() == expected(self.blocks)
        check_tables(self.stack, DAG, self.blocks)

    def collect(self) -> None:
        """Nothing that was staged in vain is left, and all that is visible is still there."""
        collect_all(self.stack)
        assert left_over(self.stack, self.witness) == set()
        assert self.witness.reread() == expected(self.blocks)


def expected(blocks: int) -> Rows:
    found: Rows = {}
    for n in range(blocks):
        first = {"job": "first", "revision": 1, "range": [n, n], "inputs": []}
        second = {"job": "second", "revision": 1, "range": [n, n], "inputs": [first]}
        found[DAG, "first", 0, n, n] = (json.dumps(first).encode(),)
        found[DAG, "second", 0, n, n] = (json.dumps(second).encode(),)
    return found


@pytest.fixture
def walk(state_dsns: Any, tmp_path: Path) -> Iterator[Walk]:
    with crash_engine(tmp_path, state_dsns) as stack:
        dispatcher = stack.committer()
        worker = stack.killable_worker(dispatcher.port)
        dispatcher.await_ready()
        worker.await_ready()
        stack.deploy(dispatcher.port, dag_yaml(JOBS, DAG))
        witness = Witness(stack)
        try:
            yield Walk(stack, dispatcher, worker, witness)
        finally:
            witness.close()


def test_a_worker_killed_at_each_point_of_a_write(walk: Walk) -> None:
    for point in POINTS:
        print(point, flush=True)
        before, pid = walk.witness.look(), walk.worker.pid
        walk.worker.points.arm(point)
        block = walk.emit()
        walk.worker.await_ready(pid)
        assert not walk.worker.points.is_armed
        seen = walk.witness.look()
        committed = {(DAG, "first", 0, block, block)} if point == REPLY_LOST else set()
        assert set(seen) - set(before) >= committed
        # The lease of the dead runs, and nobody else has worked at this range yet.
        assert point == REPLY_LOST or seen == before
        walk.stack.expire_leases_of(pid)
        walk.stack.settle()
        walk.check()
    left = left_over(walk.stack, walk.witness)
    assert len({name.rpartition("/")[0] for name in left}) == len(POINTS) - 1
    walk.collect()


def find_steps(walk: Walk) -> list[str]:
    """Of what commits a range and passes it on: found by doing it once."""
    walk.dispatcher.forget_steps()
    walk.emit()
    walk.stack.settle()
    walk.check()
    steps = [s for s in walk.dispatcher.steps() if s.split("/")[0] in ("complete", "publish")]
    return [step for step in steps if writes(step)]


def kill_dispatcher_at(walk: Walk, steps: list[str]) -> None:
    assert steps
    missed = []
    for step in steps:
        print(step, flush=True)
        pid = walk.dispatcher.pid
        walk.dispatcher.arm(step)
        try:
            walk.emit()
        except Exception:
            # The publisher died while it was told: told again, as a source would.
            walk.dispatcher.await_ready(pid)
            walk.emit()
        walk.stack.settle()
        if walk.dispatcher.armed:
            walk.dispatcher.disarm()
            missed.append(step)
        else:
            walk.dispatcher.await_ready(pid)
            walk.stack.settle()
        walk.check()
    walk.collect()
    print(f"{len(steps) - len(missed)} kills; not reached again: {missed}")
    assert len(missed) < len(steps) / 2


def test_a_dispatcher_killed_in_a_commit_and_after_it(walk: Walk) -> None:
    kill_dispatcher_at(walk, ["complete/partitions.insert#1:after"])
    kill_dispatcher_at(walk, ["complete/commit#2:after"])


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_dispatcher_killed_at_each_statement_of_a_commit_and_its_routing(
    walk: Walk, moment: str
) -> None:
    kill_dispatcher_at(walk, [step for step in find_steps(walk) if step.endswith(f":{moment}")])


SPARK_DAG = """
name: {name}
defaults: {{ max_attempts: 3 }}
jobs:
  - {{ name: source, activation: source, source: {{ kind: manual }}, outputs: [ranges] }}
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{{ from: {{ job: source }} }}]
    outputs: [blocks, transactions, logs]
    config: {{ chain_id: 31337, rpc_pool: test, batch_blocks: 2, timeout_s: 600 }}
"""
# Blocks of one range: two Spark tasks of two batches.
SPAN = 8
# Where the worker, the JVM or the Python workers of the executors are killed.
SPARK_KILLS = [
    *((GATE, victim) for victim in ("worker", "jvm", "python")),
    *((point, victim) for point in POINTS[1:-1] for victim in ("worker", "jvm")),
    (REPLY_LOST, "worker"),
]


@dataclass
class Gate:
    """A node that keeps its answers for itself while a file is half-written."""

    chain: TinyChain
    opened: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)

    def answer(self, method: str, params: list[Any]) -> Any:
        # The first batch of a part is answered: there is something in the file.
        if method == "eth_getBlockByNumber" and int(params[0], 16) % 4 >= 2:
            self.asked.set()
            self.opened.wait()
        return self.chain.answer(method, params)


@pytest.mark.long
@pytest.mark.spark
def test_an_ingest_killed_at_each_point_of_its_write(state_dsns: Any, tmp_path: Path) -> None:
    gate = Gate(TinyChain(SPAN * len(SPARK_KILLS)))
    gate.opened.set()
    with crash_engine(tmp_path, state_dsns) as stack, scripted_rpc(gate.answer) as node:
        dispatcher = stack.committer()
        config = '[spark]\nmaster = "local[2]"\n'
        worker = stack.killable_worker(dispatcher.port, config)
        worker.serve_node(node.url)
        dispatcher.await_ready()
        worker.await_ready()
        for name in ("killed", "clean"):
            stack.deploy(dispatcher.port, SPARK_DAG.format(name=name))
        with closing(Witness(stack)) as witness:
            walk = IngestWalk(stack, dispatcher, worker, witness, gate)
            try:
                walk.kill_at_each()
            finally:
                gate.opened.set()
            walk.check_against_clean_run()


@dataclass
class IngestWalk:
    stack: CrashEngine
    dispatcher: KillableDispatcher
    worker: KillableWorker
    witness: Witness
    gate: Gate

    def kill_at_each(self) -> None:
        for number, (point, victim) in enumerate(SPARK_KILLS):
            print(point, victim, flush=True)
            before, pid = self.witness.look(), self.worker.pid
            if point == GATE:
                self._kill_while_writing(number, victim)
            else:
                self._kill_at(point, victim, number)
            if victim == "worker":
                self.worker.await_ready(pid)
                assert point == REPLY_LOST or self.witness.look() == before
                self.stack.expire_leases_of(pid)
            self.stack.settle(240)

    def check_against_clean_run(self) -> None:
        for number in range(len(SPARK_KILLS)):
            self._emit("clean", number)
        self.stack.settle(240)
        shown = self.witness.look()
        rows = {name: _of(shown, name) for name in ("killed", "clean")}
        assert len(rows["clean"]) == 3 * len(SPARK_KILLS)
        assert rows["killed"] == rows["clean"]
        assert left_over(self.stack, self.witness), "the kills left nothing behind"
        collect_all(self.stack)
        assert left_over(self.stack, self.witness) == set()
        assert self.witness.reread() == shown

    def _kill_at(self, point: str, victim: str, number: int) -> None:
        self.worker.points.arm(point, victim)
        self._emit("killed", number)
        wait_for(f"{point} to be reached", lambda: not self.worker.points.is_armed)

    def _kill_while_writing(self, number: int, victim: str) -> None:
        self.gate.asked.clear()
        self.gate.opened.clear()
        self._emit("killed", number)
        assert self.gate.asked.wait(120)
        left = left_over(self.stack, self.witness)
        assert [name for name in left if name.endswith(".parquet")], "no file is open"
        for pid in self._victims(victim):
            os.kill(pid, signal.SIGKILL)
        self.gate.opened.set()

    def _victims(self, victim: str) -> list[int]:
        if victim == "worker":
            return [self.worker.pid]
        jvm = next(p for p in psutil.Process(self.worker.pid).children() if "java" in p.name())
        if victim == "jvm":
            return [jvm.pid]
        # The daemon's children: it starts others in their place.
        return [child.pid for daemon in jvm.children() for child in daemon.children()]

    def _emit(self, dag: str, number: int) -> None:
        blocks = (number * SPAN, number * SPAN + SPAN - 1)
        self.stack.emit_ranges(self.dispatcher.port, f"{dag}.source", [blocks])


def _of(shown: Rows, dag: str) -> dict[Any, tuple[bytes, ...]]:
    return {key[1:]: files for key, files in shown.items() if key[0] == dag}
