"""Two dispatchers on one Postgres, and workers that talk to either: no task is dispatched twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.cutting_proxy import cutting_proxy
from tests.support.engine_stack import dag, engine, job

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("tasks", [1_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_two_dispatchers_start_each_attempt_once(
    state_dsns: Any, tmp_path: Path, tasks: int
) -> None:
    with engine(tmp_path, state_dsns) as stack:
        first, second = stack.dispatcher(), stack.dispatcher()
        with cutting_proxy([first.port, second.port], stack.tls) as either:
            # The third claims at one dispatcher and reports to the other.
            for port in (first.port, second.port, either.port):
                stack.worker(port, slots=16)
            stack.await_ready()
            config = {"starts": str(stack.starts_file)}
            stack.deploy(first.port, dag("twins", [job("work", "witness", config)]))
            for start in range(0, tasks, 500):
                port = (first.port, second.port)[start // 500 % 2]
                assert stack.emit(port, "twins.source", range(start, start + 500)) == 500
            stack.wait_for_completed(tasks, 240)

        starts = Counter((s.task_id, s.attempt) for s in stack.starts())
        assert len(starts) == tasks
        assert set(starts.values()) == {1}, "an attempt that was started twice"
        by_worker = Counter(s.pid for s in stack.starts())
        assert len(by_worker) == 3, "a worker that had nothing to do"
        assert stack.outcomes() == [{"outcomes": ["Completed"], "tasks": tasks}]
        assert stack.value("SELECT count(*) FROM outbox") == 0
        print(f"{tasks} tasks, {len(starts)} attempts; by worker: {sorted(by_worker.values())}")
