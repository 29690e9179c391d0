"""kill -9 of the dispatcher at every statement of a deploy, a cut-over, a failed build, a rollback:
the DAG is wholly its old version or wholly its new one, and no event is lost or done twice.

The statements are found by running each scenario once, so that a new one is walked by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.deploy_reader import (
    Poll,
    Reader,
    active_version,
    check_tables,
    is_settled,
    published_generations,
)
from tests.support.engine_stack import EngineProcess
from tests.support.killable_stack import (
    KillableDispatcher,
    KillableEngine,
    killable_engine,
    writes,
)
from tests.support.pipeline import Job, Jobs, dag_yaml, edited
from tests.support.stack import wait_for

pytestmark = pytest.mark.timeout(1200)

JOBS: Jobs = {
    "a": Job(),
    "middle": Job(("a",)),
    "c": Job(("middle",)),
    "d": Job(("middle",)),
    "join": Job(("c", "d")),
    "kept": Job(("a",)),
    "half": Job(("kept", "c")),
}
# Each kill has a range more to rebuild: after so many, another DAG takes the place of this one.
KILLS_OF_A_DAG = 4
# What these do depends on who comes first: one of their steps may not happen again.
IN_THE_BACKGROUND = ("publish", "claim", "complete")


@dataclass
class Walk:
    """A DAG, a dispatcher that is killed again and again, and a worker that works on."""

    stack: KillableEngine
    dispatcher: KillableDispatcher
    worker: EngineProcess
    reader: Reader
    trap: Path
    dag: str = ""
    # Of the job in the middle: in the version that is active, and in the newest.
    revision: int = 1
    newest: int = 1
    blocks: int = 0
    pid: int = 0
    _names: Iterator[str] = field(default_factory=lambda: map("walk{}".format, itertools.count()))

    def begin(self) -> None:
        """With a DAG of its own that holds a range."""
        self.dag, self.revision, self.newest, self.blocks = next(self._names), 1, 1, 0
        self.pid = self.dispatcher.pid
        self.deploy(1)
        self.emit()
        self.settle()

    def emit(self, blocks: int = 1) -> None:
        ranges = [(n, n) for n in range(self.blocks, self.blocks + blocks)]
        self.stack.emit_ranges(self.dispatcher.port, f"{self.dag}.source", ranges)
        self.blocks += blocks

    def deploy(self, revision: int, fails: bool = False) -> dict[str, Any]:
        fields = (("config", {"fails": str(self.trap)}),) if fails else ()
        jobs = edited(JOBS, "middle", revision=revision, fields=fields)
        return self._post("/v1/dags", {"yaml": dag_yaml(jobs, self.dag)})

    def roll_back(self, instead_of: Any) -> dict[str, Any]:
        return self._post(f"/v1/dags/{self.dag}/rollback", {"instead_of": str(instead_of)})

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Repeated, as its user would, when the dispatcher died before it answered."""
        try:
            return dict(self.stack.post(self.dispatcher.port, path, body))
        except httpx.TransportError:
            self._meet_another()
            return dict(self.stack.post(self.dispatcher.port, path, body))

    def kill_at(self, step: str | None) -> None:
        if step is not None:
            self.dispatcher.arm(step)

    def _meet_another(self) -> None:
        """Readers see one version, whole, before anything else happens."""
        self.dispatcher.await_ready(self.pid)
        self.pid = self.dispatcher.pid
        self.stack.expire_leases()
        self.look()

    def look(self) -> Poll:
        seen = self.reader.poll().of(self.dag)
        seen.check()
        versions = self.stack.sql("SELECT id FROM dag_versions WHERE dag_name = %s", self.dag)
        shown = [published_generations(self.stack, version["id"]) for version in versions]
        assert seen.generations in shown, "no version shows this"
        return seen

    def settle(self) -> None:
        def settled() -> bool:
            if is_settled(self.stack):
                return True
            self.stack.heal()
            if self.dispatcher.pid != self.pid:
                self._meet_another()
            return False

        wait_for("the end of all tasks", settled, 60)

    def check(self) -> Poll:
        """All is settled: one version is there, whole, with every range once."""
        seen = self.look()
        version = active_version(self.stack, self.dag)
        assert seen.generations == published_generations(self.stack, version)
        assert seen.revisions() == dict.fromkeys(JOBS, 1) | {"middle": self.revision}
        check_tables(self.stack, self.dag, self.blocks)
        return seen


Scenario = Callable[[Walk, str | None], None]


def deploys_and_cuts_over(walk: Walk, step: str | None) -> None:
    walk.emit()
    walk.kill_at(step)
    walk.newest += 1
    assert walk.deploy(walk.newest)["status"] in ("Building", "CutOver", "Unchanged")
    walk.revision = walk.newest


def rolls_back(walk: Walk, step: str | None) -> None:
    before = walk.check().contents()
    version = walk.deploy(2)["dag_version"]
    wait_for("the cut-over", lambda: str(active_version(walk.stack, walk.dag)) == version, 60)
    walk.kill_at(step)
    walk.roll_back(version)
    assert walk.look().contents() == before, "not the answers of before"
    walk.emit()


def gives_up_what_failed(walk: Walk, step: str | None) -> None:
    walk.trap.touch()
    walk.emit()
    walk.kill_at(step)
    assert walk.deploy(2, fails=True)["status"] == "Building"


def gives_up_what_is_built(walk: Walk, step: str | None) -> None:
    walk.worker.freeze()
    try:
        walk.newest += 1
        version = walk.deploy(walk.newest)["dag_version"]
        walk.emit()
        walk.kill_at(step)
        walk.roll_back(version)
    finally:
        walk.worker.thaw()


# With the verbs whose statements are walked in it.
SCENARIOS: dict[str, tuple[Scenario, tuple[str, ...]]] = {
    "deploy": (deploys_and_cuts_over, ("deploy",)),
    "cut_over": (deploys_and_cuts_over, ("advance",)),
    "both": (deploys_and_cuts_over, ("deploy", "advance")),
    "build": (deploys_and_cuts_over, IN_THE_BACKGROUND),
    "failed_build": (gives_up_what_failed, ("advance",)),
    "canceled_build": (gives_up_what_is_built, ("rollback",)),
    "rollback": (rolls_back, ("rollback",)),
}


@pytest.fixture
def walk(state_dsns: Any, tmp_path: Path) -> Iterator[Walk]:
    with killable_engine(tmp_path, state_dsns) as stack:
        dispatcher = stack.killable_dispatcher()
        worker = stack.worker(dispatcher.port, slots=8)
        dispatcher.await_ready()
        worker.await_ready()
        reader = Reader(stack, dispatcher.port)
        made = Walk(stack, dispatcher, worker, reader, tmp_path / "trap")
        made.begin()
        try:
            yield made
        finally:
            reader.close()


def test_killed_before_and_after_the_commit_of_a_deploy_and_of_a_cut_over(walk: Walk) -> None:
    """With all written and nothing committed, and with all committed and nobody told."""
    found = [step for step in find_steps(walk, "both") if is_first_after_a_write(step)]
    chosen = []
    for verb in SCENARIOS["both"][1]:
        wrote = [step for step in found if step.startswith(f"{verb}/")]
        last = max(n for n, step in enumerate(wrote) if "/commit#" in step)
        chosen += wrote[last - 1 : last + 1]
    kill_at_each(walk, "both", chosen)


# The others take as long again, and are walked with all their statements by the longer test.
@pytest.mark.long
@pytest.mark.parametrize("scenario", ["deploy", "cut_over"])
def test_killed_after_each_statement_that_writes(walk: Walk, scenario: str) -> None:
    found = find_steps(walk, scenario)
    kill_at_each(walk, scenario, [step for step in found if is_first_after_a_write(step)])


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "both"])
def test_killed_at_each_statement(walk: Walk, scenario: str, moment: str) -> None:
    found = find_steps(walk, scenario)
    kill_at_each(walk, scenario, [step for step in found if step.endswith(f":{moment}")])


def is_first_after_a_write(step: str) -> bool:
    once = "#1:" in step or "/commit#" in step
    return once and step.endswith(":after") and writes(step)


def find_steps(walk: Walk, scenario: str) -> list[str]:
    run, verbs = SCENARIOS[scenario]
    walk.dispatcher.forget_steps()
    run(walk, None)
    walk.settle()
    walk.check()
    return [step for step in walk.dispatcher.steps() if step.split("/")[0] in verbs]


def kill_at_each(walk: Walk, scenario: str, steps: list[str]) -> None:
    run, verbs = SCENARIOS[scenario]
    assert steps
    missed = []
    for number, step in enumerate(steps):
        if number % KILLS_OF_A_DAG == 0:
            walk.begin()
        print(step, flush=True)
        before = walk.pid
        run(walk, step)
        walk.settle()
        if walk.dispatcher.armed:
            walk.dispatcher.disarm()
            missed.append(step)
        else:
            walk.dispatcher.await_ready(before)
            walk.settle()
        walk.check()
    print(f"{len(steps) - len(missed)} kills; not reached again: {missed}")
    assert verbs == IN_THE_BACKGROUND or not missed
    assert len(missed) < len(steps) / 2


def test_a_worker_works_on_while_the_dispatcher_is_away(walk: Walk) -> None:
    """Killed while attempts of the version that is built run: they are reported to the next one."""
    walk.emit(20)
    walk.settle()
    walk.newest = walk.revision = 2
    walk.deploy(2)
    running = wait_for("attempts that run", lambda: frozen_with_attempts(walk), 30)
    walk.dispatcher.kill()
    walk.worker.thaw()
    walk.dispatcher.await_ready(walk.pid)
    walk.pid = walk.dispatcher.pid
    walk.look()
    walk.settle()
    walk.check()
    outcomes = walk.stack.sql(
        "SELECT DISTINCT attempt, outcome FROM task_attempts WHERE task_id = ANY(%s)", running
    )
    assert outcomes == [{"attempt": 1, "outcome": "Completed"}]


def frozen_with_attempts(walk: Walk) -> list[Any]:
    """Attempts of what is being built, and the worker stopped in the midst of them."""
    walk.worker.freeze()
    rows = walk.stack.sql(
        "SELECT t.id FROM tasks t JOIN deploys d ON t.generation_id = ANY(d.building)"
        " WHERE t.status = 'Running' AND d.status = 'Building'"
    )
    if not rows:
        walk.worker.thaw()
    return [row["id"] for row in rows]
