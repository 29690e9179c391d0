"""The example `erc20_analytics` through reorgs and kills: it holds what a rebuild makes, and only
what a reorg reached runs again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.anvil import anvil
from tests.support.busy_chain import OPTIONS
from tests.support.cold_chain import served
from tests.support.erc20_analytics import JOBS, NAME, TEXT, Analytics, Attempt, Part, assert_equal
from tests.support.follower_anvil import TokenMiner
from tests.support.scripted_rpc import ScriptedRpc
from tests.support.spark_cluster import give_secret, spark_cluster
from tests.support.stack import Stack, trace, wait_for
from trace_devchain import DevChain
from trace_devchain.activity import MAX_UINT256
from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

# Small enough that reorgs reach what has left the tables.
CHUNK = 100
HOUR_BLOCKS = 300


@pytest.fixture
def node() -> Iterator[ScriptedRpc]:
    with served(DevChain(blocks=120, txs=6)) as node:
        yield node


@contextmanager
def instance_of(home: Path, url: str, more: str = "") -> Iterator[Stack]:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f"[worker]\nprewarm = true\nslots = 3\n{more}")
    with trace(home, "up", env={"TRACE_RPC_DEMO": url}) as running:
        wait_for("the instance", lambda: "is ready in" in running.text())
        wait_for("a worker", lambda: control_client.queues(running.home).workers)
        yield running


@pytest.fixture
def instance(tmp_path: Path, node: ScriptedRpc) -> Iterator[Stack]:
    with instance_of(tmp_path / "home", node.url) as running:
        yield running


def deployed(
    instance: Stack, dag: str = NAME, prefix: str = "erc20", text: str = TEXT
) -> Analytics:
    text = text.replace("chunk_blocks: 1000", f"chunk_blocks: {CHUNK}")
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
    assert {each.failing for each in checks.values()} == {0}
    assert str(MAX_UINT256) in {row[-1] for row in analytics.rows("transfers")}


def test_reorgs_of_another_node_leave_what_it_says(tmp_path: Path) -> None:
    with anvil(*OPTIONS) as real, instance_of(tmp_path / "home", real.url) as instance:
        tokens = TokenMiner(real, seed=7)
        tokens.mine(90)
        analytics = deployed(instance)
        analytics.caught_up(tokens.head)
        for depth in (1, 8, 70):
            tokens.reorg(depth)
            tokens.mine(20)
            analytics.caught_up(tokens.head)
            assert_equal(analytics, tokens, tokens.head)
        assert len(analytics.rows("balances")) > 10


def test_another_partitioning_on_two_executors_gives_the_same_rows(
    tmp_path: Path, node: ScriptedRpc
) -> None:
    with instance_of(tmp_path / "one", node.url) as instance:
        analytics = deployed(instance)
        head = mine(node, 60)
        analytics.caught_up(head)
        head = reorg(node, 8)
        analytics.caught_up(head)
        found, parts = {job: analytics.rows(job) for job in JOBS}, places(analytics)
    other = TEXT.replace("chunk_blocks: 1000", "chunk_blocks: 70")
    other = other.replace("execution_strategy: Bulk", "execution_strategy: PerUpdate")
    other = other.replace("start_block: 0 }", "start_block: 0, emit_every_blocks: 23 }")
    home = tmp_path / "two"
    home.mkdir()
    with spark_cluster(tmp_path / "cluster") as cluster:
        give_secret(Home(home), cluster)
        conf = ", ".join(f'"{name}" = "{value}"' for name, value in cluster.conf.items())
        more = f'[spark]\nmaster = "{cluster.url}"\nconf = {{ {conf} }}\n'
        with instance_of(home, node.url, more) as instance:
            again = deployed(instance, text=other)
            again.caught_up(head, 900)
            assert len(cluster.executors()) == 2
            assert places(again) != parts
            for job in JOBS:
                assert again.rows(job) == found[job], job


def places(analytics: Analytics) -> set[tuple[str, int, int]]:
    return {(part.job, part.start, part.end) for part in analytics.parts()}


def reached(part: Part, fork: int) -> bool:
    """Whether it depends on the block: an hour reads as far as one can reach."""
    return part.end + (HOUR_BLOCKS - 1 if part.job == "hourly" else 0) >= fork


def touched(attempt: Attempt, fork: int) -> bool:
    return attempt.end + (HOUR_BLOCKS - 1 if attempt.job == "hourly" else 0) >= fork
