"""A worker that is killed and started again: what it ran goes on at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_stack import engine
from tests.support.stack import wait_for

pytestmark = pytest.mark.timeout(180)

LEASE_S = 600
DAG = f"""
name: live
defaults: {{ heartbeat_timeout_seconds: {LEASE_S} }}
jobs:
  - name: ticks
    activation: source
    source: {{ kind: always_on }}
    runtime: ecs_platform
    operator: ticker
    config: {{ every_seconds: 0.1 }}
"""
RUN = "SELECT * FROM tasks WHERE dedupe_key = 'run'"


def test_a_worker_that_was_killed_goes_on_at_once_with_what_it_ran(
    state_dsns: Any, tmp_path: Path
) -> None:
    with engine(tmp_path, state_dsns) as stack:
        dispatcher = stack.dispatcher()
        worker, other = stack.worker(dispatcher.port), stack.worker(dispatcher.port)
        stack.await_ready()
        stack.deploy(dispatcher.port, DAG)
        wait_for("the source", lambda: [r for r in stack.sql(RUN) if r["status"] == "Running"])
        (run,) = stack.sql(RUN)
        holder = next(w for w in (worker, other) if run["worker_id"].endswith(f"/{w.pid}"))
        holder.process.kill()
        holder.process.wait(20)
        killed = time.monotonic()
        stack.started_again(holder).await_ready()

        def runs_again() -> bool:
            (now,) = stack.sql(RUN)
            return bool(now["status"] == "Running" and now["attempt"] == 2)

        wait_for("the next attempt", runs_again, 30)
        assert time.monotonic() - killed < LEASE_S / 10
        first = stack.sql("SELECT * FROM task_attempts WHERE attempt = 1")[0]
        assert (first["outcome"], first["error_code"]) == ("LeaseExpired", "worker_lost")
        assert first["worker_id"] in first["error_message"]
