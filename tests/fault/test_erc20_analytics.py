"""The example `erc20_analytics` through reorgs and kills: it holds what a rebuild makes, and only
what a reorg reached runs again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.cold_chain import served
from tests.support.erc20_analytics import JOBS, NAME, TEXT, Analytics, Attempt, Part, assert_equal
from tests.support.scripted_rpc import ScriptedRpc
from tests.support.stack import Stack, trace, wait_for
from trace_devchain import DevChain
from trace_platform.app.api_client import control_client

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

# Small enough that reorgs reach what has left the tables.
CHUNK = 100
HOUR_BLOCKS = 300


@pytest.fixture
def node() -> Iterator[ScriptedRpc]:
    with served(DevChain(blocks=120, txs=6)) as node:
        yield node


@pytest.fixture
def instance(tmp_path: Path, node: ScriptedRpc) -> Iterator[Stack]:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text("[worker]\nprewarm = true\nslots = 3\n")
    with trace(home, "up", env={"TRACE_RPC_DEMO": node.url}) as running:
        wait_for("the instance", lambda: "is ready in" in running.text())
        wait_for("a worker", lambda: control_client.queues(running.home).workers)
        yield running


def deployed(instance: Stack, dag: str = NAME, prefix: str = "erc20") -> Analytics:
    text = TEXT.replace("chunk_blocks: 1000", f"chunk_blocks: {CHUNK}")
    text = text.replace(f"name: {NAME}", f"name: {dag}").replace("erc20_", f"{prefix}_")
    control_client.deploy(instance.home, text, f"{dag}.yaml")
    return Analytics(instance, dag, prefix)


def mine(node: ScriptedRpc, blocks: int) -> int:
    return int(node.answer("dev_mine", [blocks]), 16)


def reorg(node: ScriptedRpc, depth: int) -> int:
    return int(node.answer("dev_reorg", [depth]), 16)


def kill_spark(instance: Stack) -> None:
    """The JVM of the worker, which goes on without it."""
    worker = psutil.Process(instance.pid("worker"))
    (java,) = [each for each in worker.children(recursive=True) if each.name() == "java"]
    os.kill(java.pid, signal.SIGKILL)


@pytest.mark.parametrize("depth", [1, 8, 70])
def test_only_what_a_reorg_reached_runs_again(
    depth: int, node: ScriptedRpc, instance: Stack
) -> None:
    analytics = deployed(instance)
    head = 120
    for blocks in (0, 60, 90, 30, 50, 2):
        head = mine(node, blocks) if blocks else head
        analytics.caught_up(head)
    before, ran = analytics.parts(), analytics.attempts()
    fork = head - depth + 1
    head = reorg(node, depth)
    analytics.caught_up(head)
    assert_equal(analytics, node, head)
    after, again = analytics.parts(), analytics.attempts() - ran
    assert {each for each in before if not reached(each, fork)} <= after
    assert all(reached(each, fork) for each in after - before)
    assert len({each for each in before if not reached(each, fork)}) > 2, "some lie below it"
    wakes = 1
    for job in JOBS:
        own = [each for each in again if each.job == job]
        made = [each for each in before | after if each.job == job and reached(each, fork)]
        assert own, job
        assert all(each.outcome == "Completed" for each in own), own
        assert all(touched(each, fork) for each in own), own
        # Each time that what it reads was committed, each range that the fork lies in or below.
        assert len(own) <= wakes * len(made), (own, made)
        wakes = len(own) if job == "transfers" else wakes


def test_reorgs_and_kills_while_it_runs_leave_what_a_rebuild_makes(
    node: ScriptedRpc, instance: Stack
) -> None:
    analytics = deployed(instance)
    mine(node, 60)
    analytics.caught_up(180)
    reorg(node, 1)
    mine(node, 40)
    reorg(node, 8)
    mine(node, 50)
    instance.kill("worker")
    head = mine(node, 40)
    analytics.caught_up(head)
    assert_equal(analytics, node, head)
    # Into what has left the tables, and while a worker has just been killed.
    mine(node, 5)
    instance.kill("worker")
    reorg(node, 70)
    mine(node, 30)
    reorg(node, 8)
    reorg(node, 1)
    head = mine(node, 20)
    analytics.caught_up(head)
    assert_equal(analytics, node, head)
    reorg(node, 70)
    kill_spark(instance)
    mine(node, 40)
    instance.kill("worker")
    head = reorg(node, 8)
    analytics.caught_up(head)
    assert_equal(analytics, node, head)
    again = deployed(instance, "again", "again")
    again.caught_up(head)
    for job in JOBS:
        assert again.rows(job) == analytics.rows(job), job
    checks = analytics.checks()
    assert checks == again.checks()
    assert checks["transfers", "range_value_f64"].failing > 0, "amounts of 2^256 - 1"


def reached(part: Part, fork: int) -> bool:
    """Whether it depends on the block: an hour reads as far as one can reach."""
    return part.end + (HOUR_BLOCKS - 1 if part.job == "hourly" else 0) >= fork


def touched(attempt: Attempt, fork: int) -> bool:
    return attempt.end + (HOUR_BLOCKS - 1 if attempt.job == "hourly" else 0) >= fork
