"""Postgres crashes again and again while tasks flow: what was acknowledged is done, and done once.

The server is one of the test's own, with `fsync` on; each crash is an immediate shutdown, and each
start recovers from the log.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.crashing_postgres import CrashingPostgres, crashing_postgres
from tests.support.engine_stack import Engine, dag, engine, job
from tests.support.stack import wait_for

pytestmark = pytest.mark.timeout(900)

SEED = 5_40
GOES_ON_WITHIN_S = 10.0
BATCH = 5


def test_two_crashes_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with flowing(tmp_path) as flow:
        for _ in range(2):
            flow.await_completed(100)
            flow.crash()
        flow.check()


@pytest.mark.long
def test_minutes_of_crashes_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    until = time.monotonic() + 180
    with flowing(tmp_path) as flow:
        while time.monotonic() < until:
            # Not to wait for anything: crashes come when they come.
            time.sleep(chance.uniform(5, 40))
            flow.crash()
        flow.check()


def test_an_attempt_that_ends_during_an_outage_is_reported_again(
    state_dsns: Any, tmp_path: Path
) -> None:
    with engine(tmp_path, state_dsns) as stack:
        dispatcher = stack.dispatcher()
        stack.worker(dispatcher.port)
        stack.await_ready()
        deploy(stack, dispatcher.port)
        # The first tries find a server that shuts down. Sequences are not rolled back.
        stack.sql("CREATE SEQUENCE tries; GRANT USAGE ON tries TO trace_dispatcher")
        stack.sql(
            "CREATE FUNCTION outage() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF nextval('tries') <= 6 THEN RAISE 'outage' USING ERRCODE = 'admin_shutdown';"
            " END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER outage BEFORE UPDATE ON tasks FOR EACH ROW"
            " WHEN (NEW.status = 'Completed') EXECUTE FUNCTION outage()"
        )
        stack.emit_ranges(dispatcher.port, "crashes.source", [(0, 0)])
        stack.wait_for_completed(2)
        assert stack.value("SELECT last_value FROM tries") > 6
        assert stack.outcomes() == [{"outcomes": ["Completed"], "tasks": 2}]


def deploy(stack: Engine, port: int) -> None:
    """Two jobs of one source: `plain` only ends, `writes` commits a partition."""
    config = {"starts": str(stack.starts_file)}
    jobs = [
        job("plain", "witness", config),
        job("writes", "witness", config | {"commit": True}, "    outputs: [rows, marks]\n"),
    ]
    stack.deploy(port, dag("crashes", jobs, "max_attempts: 20, heartbeat_timeout_seconds: 15"))


class Flow:
    """Events in, one dispatcher, one worker, and a database that crashes under them."""

    def __init__(self, postgres: CrashingPostgres, stack: Engine, port: int) -> None:
        self._postgres = postgres
        self._stack = stack
        self._port = port
        self._stopping = threading.Event()
        self._acknowledged = 0
        self._after_start_s: list[float] = []
        self._after_recovery_s: list[float] = []
        self._repeated = 0
        self._thread = threading.Thread(target=self._emit, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)

    def await_completed(self, more: int) -> None:
        goal = self._completed() + more
        wait_for(f"{goal} completed tasks", lambda: self._completed() >= goal)

    def crash(self) -> None:
        """And measure when the first task completes: after the server's start, and after the end of
        the server's own recovery."""
        self._postgres.crash()
        self._postgres.restart()
        recovered_s = self._since_start("clock_timestamp()")
        completed = (
            "(SELECT min(ended_at) FROM task_attempts"
            " WHERE outcome = 'Completed' AND ended_at > pg_postmaster_start_time())"
        )
        first_s = wait_for("a completion after it", lambda: self._since_start(completed))
        self._after_start_s.append(first_s)
        self._after_recovery_s.append(first_s - recovered_s)

    def check(self) -> None:
        self.stop()
        wait_for("the end of all tasks", self._is_idle, 120)
        print(
            f"{len(self._after_start_s)} crashes, {self._acknowledged} events acknowledged,"
            f" {self._repeated} requests repeated; the first completion came at most"
            f" {max(self._after_start_s):.1f} s after the server's start and"
            f" {max(self._after_recovery_s):.1f} s after its recovery;"
            f" outcomes: {self._stack.outcomes()}"
        )
        done = self._stack.sql(
            "SELECT j.name AS job, (t.inputs->0->>'start')::integer AS block, t.status,"
            " (SELECT count(*) FROM task_attempts a"
            "   WHERE a.task_id = t.id AND a.outcome = 'Completed') AS completions,"
            " (SELECT count(*) FROM partition_versions p WHERE p.task_id = t.id) AS commits"
            " FROM tasks t JOIN jobs j ON j.id = t.job_id ORDER BY 1, 2"
        )
        assert done == [
            {"job": job, "block": n, "status": "Completed", "completions": 1, "commits": commits}
            for job, commits in (("plain", 0), ("writes", 1))
            for n in range(self._acknowledged)
        ]
        assert max(self._after_recovery_s) <= GOES_ON_WITHIN_S
        failed = self._stack.sql("SELECT error_code FROM task_attempts WHERE outcome = 'Failed'")
        assert failed == [], "an outage is no failure of an attempt"
        starts = [(start.task_id, start.attempt) for start in self._stack.starts()]
        assert len(starts) == len(set(starts)), "an attempt that was started twice"

    def _emit(self) -> None:
        """Every batch is sent until it is acknowledged: an event counts once, however often it is
        sent. Stops between two batches, so that what was sent is what was acknowledged."""
        with self._stack.client(self._port) as http:
            for start in itertools.count(0, BATCH):
                blocks = range(start, start + BATCH)
                events = [{"partition_key": f"{n}-{n}", "start": n, "end": n} for n in blocks]
                body = {"dataset": "crashes.source", "events": events}
                wait_for("an answer", partial(self._acknowledges, http, body))
                self._acknowledged += BATCH
                # As fast as they can be worked off, on a small machine.
                if self._stopping.wait(0.2):
                    return

    def _acknowledges(self, http: httpx.Client, body: dict[str, Any]) -> bool:
        try:
            if http.post("/v1/events", json=body).status_code == 200:
                return True
        except httpx.TransportError:
            pass
        self._repeated += 1
        return False

    def _completed(self) -> int:
        return int(self._stack.value("SELECT count(*) FROM tasks WHERE status = 'Completed'"))

    def _since_start(self, moment: str) -> float:
        """Seconds from the server's start to a moment, by its own clock; 0 when there is none."""
        since = f"extract(epoch FROM {moment} - pg_postmaster_start_time())"
        return float(self._stack.value(f"SELECT coalesce({since}, 0)"))

    def _is_idle(self) -> bool:
        busy = (
            "SELECT EXISTS (SELECT FROM outbox WHERE kind = 'route')"
            " OR EXISTS (SELECT FROM tasks WHERE status <> 'Completed')"
        )
        return not self._stack.value(busy)


@contextmanager
def flowing(folder: Path) -> Iterator[Flow]:
    # The loops at their usual pace: how soon work goes on is measured.
    with crashing_postgres(folder) as postgres, engine(folder, postgres.dsns, "") as stack:
        assert stack.value("SHOW fsync") == "on"
        assert stack.value("SHOW synchronous_commit") == "on"
        dispatcher = stack.dispatcher()
        stack.worker(dispatcher.port, slots=8)
        stack.await_ready()
        deploy(stack, dispatcher.port)
        flow = Flow(postgres, stack, dispatcher.port)
        try:
            yield flow
        finally:
            flow.stop()
