"""The worker against a real dispatcher and queue: it decides nothing and loses nothing."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.conftest import DataDsns
from tests.support.control_plane import WORKER_TOKEN
from tests.support.probe_operator import behave
from tests.support.served_dispatcher import ServedDispatcher
from tests.support.stack import wait_for
from trace_platform.data.database import DataDatabase
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.domain.errors import (
    BadInput,
    MalformedBlock,
    NodeContradictsItself,
    ProvidersDisagree,
    RpcUnreachable,
    TraceError,
    WrongChain,
)
from trace_platform.domain.prefix import log_uri
from trace_platform.domain.worker_identity import WorkerIdentity
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.lite.pgqueue import PgQueueReceiver
from trace_platform.drivers.queue import source_queue
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators import registry
from trace_platform.operators.contract import Result, TaskContext
from trace_platform.operators.own.load_code import CodeLoader
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.worker import serve
from trace_platform.worker.dispatcher_client import DispatcherClient
from trace_platform.worker.resources import Resources
from trace_platform.worker.serve import Line, Worker

DAG = """
name: probe
defaults:
  {{ max_attempts: {attempts}, heartbeat_timeout_seconds: 15, timeout_seconds: {limit} }}
jobs:
  - {{ name: request, activation: source, source: {{ kind: manual }} }}
  - name: work
    activation: reactive
    runtime: ecs_platform
    operator: probe
    inputs: [{{ from: {{ job: request }} }}]
"""


class Rig:
    """A dispatcher, a queue and a worker with two slots, and as many for sources."""

    def __init__(
        self,
        dsns: Any,
        folder: Path,
        data: DataDatabase | None = None,
        incarnation: int = 1,
        spark: SparkRuntime | None = None,
    ) -> None:
        self.dispatcher = ServedDispatcher(dsns, folder)
        self.dispatcher.start()
        self._owner = dsns.owner
        self._queues = PgQueueReceiver(dsns.queue), PgQueueReceiver(dsns.queue)
        self._client = DispatcherClient(self.dispatcher.url, WORKER_TOKEN, self.dispatcher.tls.ca)
        self.worker = Worker(
            WorkerIdentity("test-worker", incarnation, os.getpid()),
            "ecs_platform",
            Line(2, self._queues[0], "ecs_platform", is_sources=False),
            Line(2, self._queues[1], source_queue("ecs_platform"), is_sources=True),
            self._client,
            Resources(
                LocalStore(str(folder)),
                RpcEndpoint,
                spark or SparkRuntime(folder / "spark"),
                data,
                code=CodeLoader(folder / f"code-{incarnation}", self._client.operator_code),
            ),
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.worker._watch()
        self.worker._work()
        self.worker._drain()

    def start(self, end: int = 9, *, attempts: int = 1, limit: float = 60) -> None:
        yaml = DAG.format(attempts=attempts, limit=limit)
        self.dispatcher.run(lambda plane: plane.deploy(yaml))
        self.dispatcher.run(lambda plane: plane.trigger(0, end, "probe", "request"))

    def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self._owner, row_factory=dict_row) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def task(self, status: str) -> dict[str, Any]:
        """The only task, once it has this status and nothing more is to come."""

        def look() -> dict[str, Any] | None:
            rows = self.sql(
                "SELECT * FROM tasks WHERE status = %s AND next_retry_at IS NULL", status
            )
            return rows[0] if rows else None

        return wait_for(f"a task that is {status}", look)

    def close(self) -> None:
        self.worker._stopping.set()
        self._thread.join(60)
        self._client.close()
        self.dispatcher.stop()
        for queue in self._queues:
            queue.close()


@pytest.fixture
def rig(state_dsns: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setitem(registry.OPERATORS, "probe", "tests.support.probe_operator.Probe")
    # Directives arrive soon, under a lease that a busy machine keeps.
    monkeypatch.setattr(serve, "MAX_BEAT_S", 0.3)
    opened = Rig(state_dsns, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def rig_with_data(
    state_dsns: Any, data_dsns: DataDsns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rig]:
    monkeypatch.setitem(registry.OPERATORS, "probe", "tests.support.probe_operator.Probe")
    opened = Rig(state_dsns, tmp_path, DataDatabase(data_dsns.writer))
    yield opened
    opened.close()


def fail_with(error: Exception) -> Callable[[TaskContext], Result | None]:
    def run(task: TaskContext) -> Result | None:
        raise error

    return run


def test_a_task_runs_and_completes(rig: Rig) -> None:
    seen: list[TaskContext] = []
    behave(lambda task: seen.append(task))
    rig.start()
    assert rig.task("Completed")["attempt"] == 1
    assert (seen[0].inputs[0].start, seen[0].inputs[0].end) == (0, 9)


def test_a_failure_that_another_attempt_can_mend_is_retried(rig: Rig) -> None:
    failures = iter([RpcUnreachable("gone"), RuntimeError("a defect")])

    def run(task: TaskContext) -> None:
        error = next(failures, None)
        if error:
            raise error

    behave(run)
    rig.start(attempts=3)
    assert rig.task("Completed")["attempt"] == 3
    history = rig.sql("SELECT outcome, error_code FROM task_attempts ORDER BY attempt")
    assert [row["error_code"] for row in history] == ["rpc_unreachable", "operator_crashed", None]


def test_why_an_attempt_failed_stands_in_its_log_with_all_that_the_error_knows(
    rig: Rig, tmp_path: Path
) -> None:
    def run(task: TaskContext) -> None:
        task.log.info("asked", block=7)
        try:
            raise ConnectionError("connection refused by 127.0.0.1:9")
        except ConnectionError as error:
            raise WrongChain("no block 7", hint="ask another", provider="a", block=7) from error

    behave(run)
    rig.start()
    task = rig.task("Failed")
    body = LocalStore(str(tmp_path)).get(log_uri("trace-data", task["org_id"], task["id"], 1))
    asked, ended = map(json.loads, body.splitlines())
    assert (asked["event"], ended["event"]) == ("asked", "attempt_failed")
    assert ended | {"timestamp": None} == {
        "timestamp": None,
        "level": "error",
        "event": "attempt_failed",
        "code": "wrong_chain",
        "reason": "no block 7",
        "hint": "ask another",
        "provider": "a",
        "block": 7,
        "caused_by": ["ConnectionError: connection refused by 127.0.0.1:9"],
    }


def test_the_next_attempt_comes_no_sooner_than_the_failure_says(rig: Rig) -> None:
    behave(fail_with(RpcUnreachable("limited", retry_after_s=1_000)))
    rig.start(attempts=3)

    def pause() -> list[dict[str, Any]]:
        return rig.sql(
            "SELECT extract(epoch FROM next_retry_at - completed_at) AS seconds FROM tasks"
            " WHERE status = 'Failed' AND next_retry_at IS NOT NULL"
        )

    (row,) = wait_for("a task that waits to be retried", pause)
    assert round(row["seconds"]) == 1_000


def test_a_node_that_is_away_for_longer_than_all_attempts_costs_none(rig: Rig) -> None:
    """16 seconds of silence ended tasks for good: three attempts in 15 s."""
    away = iter([RpcUnreachable("the node is away", outage=True)] * 4)

    def run(task: TaskContext) -> None:
        error = next(away, None)
        if error:
            raise error

    behave(run)
    rig.start(attempts=2)

    def completed() -> list[dict[str, Any]]:
        rig.sql(
            "UPDATE tasks SET next_retry_at = clock_timestamp() WHERE next_retry_at IS NOT NULL"
        )
        return rig.sql("SELECT attempt FROM tasks WHERE status = 'Completed'")

    assert wait_for("the fifth attempt", completed) == [{"attempt": 5}]


def test_a_failure_that_none_can_mend_is_final(rig: Rig) -> None:
    behave(fail_with(BadInput("wrong", hint="give the right one")))
    rig.start(attempts=3)
    task = rig.task("Failed")
    assert (task["attempt"], task["error_code"]) == (1, "bad_input")
    assert task["error_message"] == "wrong (give the right one)"


def until_stopped(started: threading.Event) -> Callable[[TaskContext], Result | None]:
    def run(task: TaskContext) -> Result | None:
        started.set()
        forever = threading.Event()
        while not forever.wait(0.02):
            task.check()
        return None

    return run


def test_a_task_that_runs_too_long_is_stopped(rig: Rig) -> None:
    behave(until_stopped(threading.Event()))
    rig.start(limit=0.5)
    assert rig.task("Failed")["error_code"] == "task_timed_out"


def test_cancel_reaches_a_running_task(rig: Rig) -> None:
    started = threading.Event()
    behave(until_stopped(started))
    rig.start()
    assert started.wait(60)
    (row,) = rig.sql("SELECT id FROM tasks")
    rig.dispatcher.run(lambda p: cancel_task(p.dispatcher.state, p.dispatcher.org_id, row["id"]))
    assert rig.task("Canceled")["error_code"] == "task_canceled"


def test_an_outage_longer_than_the_lease_costs_no_work(rig: Rig) -> None:
    started, go_on = threading.Event(), threading.Event()

    def run(task: TaskContext) -> None:
        started.set()
        assert go_on.wait(60)

    behave(run)
    rig.start()
    assert started.wait(60)
    rig.dispatcher.stop()
    rig.sql("UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 h'")
    go_on.set()
    rig.dispatcher.start()
    assert rig.task("Completed")["attempt"] == 1


def test_an_attempt_that_lost_its_task_is_stopped_and_changes_nothing(rig: Rig) -> None:
    first, second = threading.Event(), threading.Event()
    ends: list[str] = []

    def run(task: TaskContext) -> None:
        if task.attempt == 2:
            second.set()
            return
        try:
            until_stopped(first)(task)
        except Exception as error:
            ends.append(type(error).__name__)
            raise

    behave(run)
    rig.start(attempts=2)
    assert first.wait(60)
    # As if the worker had been frozen past its lease: another attempt takes over.
    rig.sql(
        "UPDATE tasks SET status = 'Queued', lease_expires_at = NULL, reaped_at = NULL,"
        " lease_token = gen_random_uuid(), announce_again_at = clock_timestamp()"
    )
    assert second.wait(60)
    assert rig.task("Completed")["attempt"] == 2
    wait_for("the first attempt's end", lambda: ends)
    assert ends == ["StaleFence"]
    assert rig.task("Completed")["attempt"] == 2


def test_garbage_in_the_queue_is_dropped_and_the_worker_goes_on(rig: Rig) -> None:
    behave(lambda task: None)
    garbage = [
        {},
        {"task_id": "x"},
        {"task_id": None},
        {"task_id": "00000000-0000-0000-0000-000000000000"},
    ]
    rig.sql("SELECT queue.send('ecs_platform', %s)", Jsonb(garbage))
    rig.start()
    rig.task("Completed")
    wait_for("an empty queue", lambda: rig.sql("SELECT 1 FROM queue.messages") == [])


def test_a_stopping_worker_hands_its_work_back(rig: Rig) -> None:
    started = threading.Event()
    behave(until_stopped(started))
    rig.start(attempts=1)
    assert started.wait(60)
    rig.worker._stopping.set()
    rig._thread.join(60)
    (row,) = rig.sql("SELECT outcome, error_code FROM task_attempts")
    assert row == {"outcome": "Failed", "error_code": "worker_stopped"}
    (task,) = rig.sql("SELECT forgiven, status, next_retry_at FROM tasks")
    assert task["forgiven"] == 1, "a stop is not the task's fault"
    assert task["status"] == "Queued" or task["next_retry_at"] is not None


LIES = "the node contradicts itself about block 7: its hash is 0x1, what it says makes 0x2"


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (ProvidersDisagree(LIES), 2),
        (NodeContradictsItself(LIES), 2),
        (MalformedBlock(LIES), 2),
        # Of a chain that moved while it was read: the next attempt finds it whole.
        (MalformedBlock(LIES), 1),
        (RpcUnreachable("gone"), 2),
    ],
    ids=["disagreement", "contradiction", "no block, twice", "no block, once", "away"],
)
def test_a_node_that_contradicts_itself_is_an_alert_and_not_just_a_failed_task(
    rig_with_data: Rig, data_dsns: DataDsns, error: TraceError, attempts: int
) -> None:
    behave(fail_with(error))
    rig_with_data.start(attempts=attempts)
    task = rig_with_data.task("Failed")
    assert task["attempt"] == attempts
    with psycopg.connect(data_dsns.owner, row_factory=dict_row) as connection:
        told = connection.execute("SELECT * FROM alert_events").fetchall()
    if attempts == 1 or type(error) is RpcUnreachable:
        assert told == []
        return
    (alert,) = told
    assert (alert["code"], alert["severity"], alert["message"]) == (error.code, "warning", LIES)
    assert (alert["dag"], alert["job"]) == ("probe", "work")
    assert alert["facts"]["task_id"] == str(task["id"])
