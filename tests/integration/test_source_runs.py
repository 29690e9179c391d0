"""A source that runs without end, on a real worker: it emits, pauses, drains and comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_worker import Rig
from tests.support.probe_operator import behave
from tests.support.stack import wait_for
from trace_platform.dispatcher.pressure.pause_job import pause_job
from trace_platform.dispatcher.pressure.resume_job import resume_job
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.operators import registry
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.wire.control import PauseRequest
from trace_platform.wire.task import DatasetEvent
from trace_platform.worker import attempt as attempt_module
from trace_platform.worker import serve

GONE = "name: live\njobs:\n  - { name: other, activation: source, source: { kind: manual } }\n"


def dag(operator: str = "probe", config: str = "{}", priority: str = "normal") -> str:
    return f"""
name: live
defaults: {{ heartbeat_timeout_seconds: 15 }}
jobs:
  - name: source
    activation: source
    source: {{ kind: always_on }}
    runtime: ecs_platform
    operator: {operator}
    priority: {priority}
    config: {config}
    outputs: [ticks]
  - name: react
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{{ from: {{ job: source }} }}]
"""


@pytest.fixture
def rig(state_dsns: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setitem(registry.OPERATORS, "probe", "tests.support.probe_operator.Probe")
    monkeypatch.setattr(serve, "MAX_BEAT_S", 0.3)
    opened = Rig(state_dsns, tmp_path)
    yield opened
    opened.close()


def deploy(rig: Rig, yaml: str) -> None:
    rig.dispatcher.run(lambda plane: plane.deploy(yaml))


def run_of(rig: Rig) -> dict[str, Any]:
    (row,) = rig.sql("SELECT * FROM tasks WHERE dedupe_key = 'run'")
    return row


def outcomes(rig: Rig) -> list[tuple[str | None, str | None]]:
    rows = rig.sql(
        "SELECT a.outcome, a.error_code FROM task_attempts a JOIN tasks t ON t.id = a.task_id"
        " WHERE t.dedupe_key = 'run' ORDER BY a.attempt"
    )
    return [(row["outcome"], row["error_code"]) for row in rows]


def wait_for_attempt(rig: Rig, number: int) -> None:
    def runs() -> bool:
        rows = rig.sql("SELECT attempt, status FROM tasks WHERE dedupe_key = 'run'")
        return rows == [{"attempt": number, "status": "Running"}]

    wait_for(f"attempt {number}", runs)


def events(rig: Rig) -> int:
    (row,) = rig.sql("SELECT count(*) AS n FROM events")
    return int(row["n"])


def counting(started: threading.Event | None = None) -> Callable[[TaskContext], Result | None]:
    """Emits as fast as it can, until it is told to end."""

    def run(task: TaskContext) -> Result | None:
        output, cursor = task.outputs[0], task.attempt * 1_000_000
        if started:
            started.set()
        while not task.draining():
            cursor += 1
            event = DatasetEvent(
                dataset_uuid=output.dataset_uuid,
                dataset_version=output.dataset_version,
                cursor=cursor,
            )
            assert task.emit([event]) == 1
        return None

    return run


def test_the_ticker_emits_while_it_runs_and_its_events_become_tasks(rig: Rig) -> None:
    deploy(rig, dag("ticker", "{ every_seconds: 0.05 }"))
    done = "SELECT 1 FROM tasks WHERE status = 'Completed' AND dedupe_key <> 'run'"
    wait_for("tasks that followed", lambda: len(rig.sql(done)) >= 5)
    assert run_of(rig)["attempt"] == 1
    rows = rig.sql("SELECT cursor FROM events ORDER BY id")
    cursors = [row["cursor"] for row in rows]
    assert cursors == sorted(set(cursors))


def test_a_changed_definition_ends_the_attempt_and_the_next_has_the_new_one(rig: Rig) -> None:
    deploy(rig, dag("ticker", "{ every_seconds: 0.05 }"))
    wait_for("events", lambda: events(rig) >= 2)
    first = run_of(rig)["id"]
    deploy(rig, dag("ticker", "{ every_seconds: 0.04 }"))
    wait_for_attempt(rig, 2)
    assert outcomes(rig)[0] == ("Completed", None)
    assert (run_of(rig)["id"], run_of(rig)["forgiven"]) == (first, 1)


def test_a_paused_source_emits_nothing_until_it_goes_on(rig: Rig) -> None:
    behave(counting())
    deploy(rig, dag())
    wait_for("events", lambda: events(rig) >= 2)

    async def pause(plane: Any) -> Any:
        return await pause_job(
            plane.dispatcher.state, plane.dispatcher.org_id, "live", "source", PauseRequest()
        )

    async def resume(plane: Any) -> Any:
        return await resume_job(plane.dispatcher.state, plane.dispatcher.org_id, "live", "source")

    rig.dispatcher.run(pause)
    wait_for("its end", lambda: run_of(rig)["status"] == "Queued")
    wait_for("a free slot", lambda: not [a for a in rig.worker._attempts() if a.is_source])
    paused = events(rig)
    rig.dispatcher.run(resume)
    wait_for("events again", lambda: events(rig) > paused)
    assert (run_of(rig)["attempt"], run_of(rig)["forgiven"]) == (2, 1)


def test_sources_take_no_slot_from_tasks_that_end(rig: Rig) -> None:
    """As many as the worker has slots for tasks: they starved everything else."""
    behave(counting())
    second = """  - name: second
    activation: source
    source: { kind: always_on }
    runtime: ecs_platform
    operator: ticker
    config: { every_seconds: 0.05 }
"""
    deploy(rig, dag() + second)
    done = "SELECT 1 FROM tasks WHERE status = 'Completed' AND dedupe_key <> 'run'"
    wait_for("tasks beside two sources", lambda: len(rig.sql(done)) >= 5)
    runs = rig.sql("SELECT status FROM tasks WHERE dedupe_key = 'run'")
    assert [run["status"] for run in runs] == ["Running"] * 2


def test_a_removed_source_ends_and_is_not_started_again(rig: Rig) -> None:
    behave(counting())
    deploy(rig, dag())
    wait_for("events", lambda: events(rig) >= 2)
    deploy(rig, GONE)
    wait_for("its end", lambda: run_of(rig)["status"] == "Canceled")
    assert outcomes(rig) == [("Canceled", "superseded")]


def test_a_worker_that_stops_lets_its_source_end_and_hands_it_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "STOP_GRACE_S", 60)
    ended: list[str] = []

    def run(task: TaskContext) -> Result | None:
        counting()(task)
        ended.append("well")
        return None

    behave(run)
    deploy(rig, dag())
    wait_for("events", lambda: events(rig) >= 2)
    rig.worker._stopping.set()
    rig._thread.join(60)
    assert ended == ["well"]
    assert outcomes(rig) == [("Failed", "worker_stopped")]
    row = run_of(rig)
    assert row["forgiven"] == 1
    assert row["status"] == "Queued" or row["next_retry_at"] is not None


def test_a_source_that_does_not_listen_is_handed_back_all_the_same(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "STOP_GRACE_S", 0.2)
    deaf = threading.Event()
    behave(lambda task: deaf.wait(120) and None)
    deploy(rig, dag())
    wait_for_attempt(rig, 1)
    rig.worker._stopping.set()
    rig._thread.join(60)
    deaf.set()
    assert outcomes(rig) == [("Failed", "worker_stopped")]


def test_a_source_that_does_not_end_when_told_to_is_stopped(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_module, "DRAIN_S", 0.2)

    def run(task: TaskContext) -> Result | None:
        never = threading.Event()
        while not never.wait(0.02):
            task.check()
        return None

    behave(run)
    deploy(rig, dag())
    wait_for_attempt(rig, 1)
    deploy(rig, dag(priority="high"))
    wait_for_attempt(rig, 2)
    assert outcomes(rig)[0] == ("Failed", "worker_stopped")
    assert run_of(rig)["forgiven"] == 1


def test_a_time_out_interrupts_a_source_and_is_no_failure(rig: Rig) -> None:
    behave(counting())
    deploy(rig, dag())
    wait_for("events", lambda: events(rig) >= 2)
    (attempt,) = [a for a in rig.worker._attempts() if a.is_source]
    # As if the day were over.
    attempt._started -= attempt.claimed.task.timeout_seconds
    wait_for_attempt(rig, 2)
    assert outcomes(rig)[0] == ("Failed", "task_timed_out")
    assert run_of(rig)["forgiven"] == 1


def test_an_outage_of_the_dispatcher_ends_no_source(rig: Rig) -> None:
    deploy(rig, dag("ticker", "{ every_seconds: 0.2 }"))
    wait_for("events", lambda: events(rig) >= 2)
    rig.dispatcher.stop()
    before = events(rig)
    rig.dispatcher.start()
    wait_for("events again", lambda: events(rig) > before + 1)
    assert run_of(rig)["attempt"] == 1


def test_a_source_that_was_canceled_stops_and_stays_so(rig: Rig) -> None:
    behave(counting())
    deploy(rig, dag())
    wait_for("events", lambda: events(rig) >= 2)
    task_id = run_of(rig)["id"]
    rig.dispatcher.run(lambda p: cancel_task(p.dispatcher.state, p.dispatcher.org_id, task_id))
    wait_for("its end", lambda: run_of(rig)["status"] == "Canceled")
    assert outcomes(rig) == [("Canceled", "task_canceled")]
