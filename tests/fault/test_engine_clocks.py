"""Workers whose clocks are an hour wrong, either way, work like one whose clock is right."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_stack import Engine, dag, engine, job
from tests.support.stack import wait_for

pytestmark = pytest.mark.timeout(300)

HOUR_S = 3_600.0
SLOTS = 4
LEASE_S = 6


def test_a_worker_whose_clock_is_an_hour_wrong_keeps_its_leases(
    state_dsns: Any, tmp_path: Path
) -> None:
    with engine(tmp_path, state_dsns) as stack:
        dispatcher = stack.dispatcher()
        shifts = {
            stack.worker(dispatcher.port, slots=SLOTS, clock_shift_s=by_s).pid: by_s
            for by_s in (-HOUR_S, 0.0, HOUR_S)
        }
        stack.await_ready()
        deploy(stack, dispatcher.port)
        tasks = SLOTS * len(shifts)
        ranges = [(10 * n, 10 * n + 9) for n in range(tasks)]
        stack.emit_ranges(dispatcher.port, "clocks.source", ranges)

        wait_for("all slots to be taken", lambda: len(stack.starts()) == tasks)
        assert_clocks_are_wrong(stack, shifts)
        # Held by heartbeats alone: all of them outlive the lease that came with their claim.
        extended = (
            "SELECT count(*) FROM tasks WHERE status = 'Running'"
            f" AND clock_timestamp() > started_at + interval '{LEASE_S + 0.5} s'"
        )
        wait_for("the first leases' end", lambda: stack.value(extended) == tasks)
        for start in stack.starts():
            stack.open_gate(start.task_id, start.attempt)
        stack.wait_for_completed(tasks)

        assert stack.outcomes() == [{"outcomes": ["Completed"], "tasks": tasks}]
        assert done_by(stack) == dict.fromkeys(shifts, (SLOTS, SLOTS))


def deploy(stack: Engine, port: int) -> None:
    config = {"starts": str(stack.starts_file), "gates": str(stack.gates), "commit": True}
    extra = f"    heartbeat_timeout_seconds: {LEASE_S}\n    outputs: [rows, marks]\n"
    stack.deploy(port, dag("clocks", [job("work", "witness", config, extra)]))


def assert_clocks_are_wrong(stack: Engine, shifts: dict[int, float]) -> None:
    starts, now = stack.starts(), time.time()
    assert Counter(start.pid for start in starts) == dict.fromkeys(shifts, SLOTS)
    for start in starts:
        for believed in (start.time_s, start.datetime_s):
            assert believed - now == pytest.approx(shifts[start.pid], abs=60)


def done_by(stack: Engine) -> dict[int, tuple[int, int]]:
    """How many attempts each worker completed, and how many partitions these committed."""
    rows = stack.sql(
        "SELECT split_part(worker_id, '/', 2)::integer AS pid, count(*) AS completed,"
        " count(p.id) AS committed FROM task_attempts a"
        " LEFT JOIN partition_versions p USING (task_id, attempt)"
        " WHERE a.outcome = 'Completed' GROUP BY 1"
    )
    return {row["pid"]: (row["completed"], row["committed"]) for row in rows}
