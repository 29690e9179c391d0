"""A whole instance follows a real node through reorgs: what it holds is what the node has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.anvil import anvil
from tests.support.followed_instance import NAMES, Held, assert_equal, caught_up, follow_dag
from tests.support.follower_anvil import OPTIONS, Miner
from tests.support.stack import Stack, trace, wait_for
from trace_platform.app.api_client import backfill_client, control_client

pytestmark = [pytest.mark.spark, pytest.mark.long]

CHUNK, DEPTH = 50, 64
SEEDS = (1, 2)


@pytest.fixture
def chain(request: pytest.FixtureRequest) -> Iterator[Miner]:
    with anvil(*OPTIONS) as node:
        yield Miner(node, request.param)


@pytest.fixture
def instance(tmp_path: Path, chain: Miner) -> Iterator[Stack]:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text("[worker]\nprewarm = true\nslots = 3\n")
    with trace(home, "up", env={"TRACE_RPC_NODE": chain.node.url}) as running:
        wait_for("the instance", lambda: "is ready in" in running.text())
        wait_for("a worker", lambda: control_client.queues(running.home).workers)
        yield running


def follow(instance: Stack, chunk: int = CHUNK, depth: int = DEPTH) -> Held:
    control_client.deploy(instance.home, follow_dag(chunk, depth), "follow.yaml")
    return Held(instance)


@pytest.mark.parametrize("chain", SEEDS, indirect=True)
def test_500_blocks_with_reorgs_past_finality_are_what_the_node_has(
    chain: Miner, instance: Stack
) -> None:
    held = follow(instance)
    chain.mine(120)
    caught_up(held, chain.head)
    chain.reorg(1)
    chain.mine(60)
    chain.reorg(8)
    chain.mine(100)
    instance.kill("worker")
    chain.mine(40)
    caught_up(held, chain.head)
    # Past what the node calls finalized, and into what has left the table.
    chain.reorg(70)
    chain.mine(100)
    chain.reorg(8)
    chain.reorg(8)
    chain.mine(80)
    caught_up(held, chain.head)
    assert chain.head >= 500
    assert_equal(held, chain.node.url, chain.head)
    first, _ = held.extent()
    assert first is not None
    assert first > 0, "rows left the table once their files were committed"
    (deep,) = control_client.alerts(instance.home, "critical", 10).alerts
    assert deep.code == "deep_reorg"
    assert deep.facts["depth"] == 70


@pytest.mark.parametrize("chain", [3], indirect=True)
def test_readers_downstream_follow_the_reorgs(chain: Miner, instance: Stack) -> None:
    """Cold files of a range that was rewritten are made anew, and those of no other."""
    held = follow(instance)
    chain.mine(220)
    caught_up(held, chain.head)
    before = {file: Path(file).stat().st_ino for file in held.cold_files("blocks")}
    chain.reorg(100)
    chain.mine(1)
    caught_up(held, chain.head)
    assert_equal(held, chain.node.url, chain.head)
    after = set(held.cold_files("blocks"))
    kept = [file for file in before if file in after]
    assert len(kept) == 2, "what lies below the fork was left alone"


@pytest.mark.parametrize("chain", [4], indirect=True)
def test_a_reorg_may_reach_below_the_seam(chain: Miner, instance: Stack) -> None:
    """The rewritten part comes back into the table, and its files are made anew, of what lies
    above the fork in the table and below it in the files before."""
    held = follow(instance, chunk=20, depth=10)
    chain.mine(150)
    caught_up(held, chain.head)
    chain.mine(20)
    caught_up(held, chain.head)
    first, _ = held.extent()
    assert first is not None
    assert first > chain.head - 70, "the fork lies in what has left the table"
    chain.reorg(70)
    assert (chain.head - 70 + 1) % 20 != 0, "within a chunk, not at its border"
    chain.mine(1)
    caught_up(held, chain.head)
    assert_equal(held, chain.node.url, chain.head)
    chain.mine(40)
    caught_up(held, chain.head)
    assert_equal(held, chain.node.url, chain.head)


@pytest.mark.parametrize("chain", [5], indirect=True)
def test_files_that_are_spoilt_are_read_from_the_chain_again(chain: Miner, instance: Stack) -> None:
    """Once their rows have left the table nothing else has them."""
    held = follow(instance, chunk=20, depth=10)
    chain.mine(100)
    caught_up(held, chain.head)
    chain.mine(20)
    caught_up(held, chain.head)
    first, _ = held.extent()
    assert first is not None
    assert first > 40
    for name in NAMES:
        Path(next(file for file in held.cold_files(name) if "_20_39" in file)).write_bytes(b"no")
        backfill_client.invalidate(
            instance.home,
            f"cold_{name}",
            {"scope": "partition", "partition_key": "20-39"},
            "spoilt",
        )
    caught_up(held, chain.head)
    assert_equal(held, chain.node.url, chain.head)
