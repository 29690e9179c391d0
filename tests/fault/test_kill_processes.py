"""kill -9 of each part while the demo ingests: it finishes, and nothing is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stack import Stack, trace, wait_for
from trace_devchain import DevChain

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(400)]

BLOCKS = 8000
TASKS = BLOCKS // 250
VICTIMS = ("dispatcher", "worker", "postgres", "query")


def test_the_demo_survives_kill_9_of_every_part(tmp_path: Path) -> None:
    with trace(tmp_path / "home", "demo", "--blocks", str(BLOCKS)) as stack:
        for turn, name in enumerate(VICTIMS):
            goal = 2 + 3 * turn
            wait_for(f"{goal} tasks", lambda goal=goal: stack.completed("chain", "ingest") >= goal)
            assert stack.completed("chain", "ingest") < TASKS, "killed too late to prove anything"
            stack.kill(name)
        wait_for("the end of the ingest", lambda: "Running." in stack.text(), 240)
        assert stack.counts("chain", "ingest") == {"Completed": TASKS}
        assert_every_block_exactly_once(stack)
        assert_parent_links_hold(stack)
        stack.stop()
        assert stack.leftovers() == []


def assert_every_block_exactly_once(stack: Stack) -> None:
    numbers = [n for (n,) in stack.query("SELECT block_number FROM blocks ORDER BY block_number")]
    assert numbers == list(range(BLOCKS))
    chain = DevChain(blocks=BLOCKS)
    expected = [len(chain.content(n).txs) for n in range(BLOCKS)]
    found = stack.query(
        "SELECT count(*), count(DISTINCT transaction_hash), max(block_number) FROM transactions"
    )
    assert found[0][:2] == [sum(expected), sum(expected)]
    logs = stack.query("SELECT count(*), count(DISTINCT (block_number, log_index)) FROM logs")
    assert logs[0][0] == logs[0][1] > 0


def assert_parent_links_hold(stack: Stack) -> None:
    """Partitions of attempts before and after each kill are of one chain."""
    links = stack.query(
        "SELECT count(*) FROM blocks a JOIN blocks b ON b.block_number = a.block_number + 1"
        " WHERE b.parent_hash = a.block_hash"
    )
    assert links == [[BLOCKS - 1]]
