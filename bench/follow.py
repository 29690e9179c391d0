"""The follower: how soon a block is a row, and what a reorg costs in a table that is ten times
larger."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.engine_peers import engine_postgres
from bench.harness import Bench, BenchError, Goal, Result, interleaved, measurement, median, spread
from bench.reorg_sides import writer_dsn
from bench.replay import replaying
from tests.support.anvil import anvil
from tests.support.followed_instance import Held, follow_dag
from tests.support.follower_anvil import OPTIONS, Miner
from tests.support.follower_run import Job, opened
from tests.support.stack import trace, wait_for
from trace_platform.app.api_client import control_client
from trace_platform.operators.follow.following import Following

LATENCY_BLOCKS = 100
SMALL, LARGE, TXS = 2_000, 20_000, 20
DEPTH = 8


@measurement("follow_latency", "from a node's new block to its committed rows, in a whole instance")
def follow_latency(bench: Bench) -> Iterator[Result]:
    with anvil(*OPTIONS) as node, _following(bench.workspace, node.url) as held:
        miner = Miner(node, seed=1)
        wait_for("the follower", lambda: held.extent()[1] == miner.head)
        taken = [_seen_after_ms(held, miner) for _ in range(LATENCY_BLOCKS)]
    taken.sort()
    p90 = taken[int(len(taken) * 0.9)]
    yield Result(
        name="follow_latency.p50",
        value=median(taken),
        unit="ms",
        goal=Goal(300.0, "p50"),
        note=f"{len(taken)} blocks, p90 {p90:.0f} ms, {spread(taken)}; through the egress",
    )


@contextmanager
def _following(workspace: Path, url: str) -> Iterator[Held]:
    home = workspace / "home"
    home.mkdir()
    (home / "config.toml").write_text("[worker]\nprewarm = false\n")
    with trace(home, "up", env={"TRACE_RPC_NODE": url}) as running:
        wait_for("the instance", lambda: "is ready in" in running.text())
        wait_for("a worker", lambda: control_client.queues(running.home).workers)
        control_client.deploy(running.home, follow_dag(chunk=100_000, depth=64), "follow.yaml")
        yield Held(running)


def _seen_after_ms(held: Held, miner: Miner) -> float:
    miner.mine()
    began, wanted = time.perf_counter(), miner.head
    with held.looking() as last_block:
        while last_block() != wanted:
            if time.perf_counter() - began > 60:
                raise BenchError(f"block {wanted} did not become a row")
            time.sleep(0.002)
    return (time.perf_counter() - began) * 1000


@measurement("reorg_repair", f"a reorg of depth {DEPTH} in {LARGE:,} blocks next to {SMALL:,}")
def reorg_repair(bench: Bench) -> Iterator[Result]:
    with (
        engine_postgres(bench.workspace) as postgres,
        opened(writer_dsn(postgres, bench.workspace)) as data,
        _chain(bench, SMALL) as small,
        _chain(bench, LARGE) as large,
    ):
        sides = {"small": _Follower(Job(data, small)), "large": _Follower(Job(data, large))}
        with sides["small"].caught_up() as a, sides["large"].caught_up() as b:
            taken = interleaved({"small": a, "large": b}, bench.runs)
    yield Result(
        name="reorg_repair.wall",
        value=median(taken["large"]),
        unit="ms",
        peer=f"{SMALL:,} blocks",
        peer_value=median(taken["small"]),
        goal=Goal(1.2, "wall", of_peer=f"{SMALL:,} blocks"),
        note=f"{spread(taken['large'])}, {spread(taken['small'])}; {LARGE // SMALL} times the rows",
    )


@contextmanager
def _chain(bench: Bench, blocks: int) -> Iterator[str]:
    log = bench.workspace / f"chain-{blocks}.log"
    with replaying(blocks, TXS, log, prebuild=False) as replay:
        yield replay.url


class _Follower:
    """Stepped by hand, so that it is the repair that is measured and not the pause before it."""

    def __init__(self, job: Job) -> None:
        # What a reorg costs, not what the confirmation of it waits for.
        job.config = {"start_block": 0, "confirmations": 1, "poll_seconds": 0.01}
        self._job = job

    @contextmanager
    def caught_up(self) -> Iterator[Callable[[], float]]:
        with self._job.steps() as follower:
            self._catch_up(follower)
            yield lambda: self._repaired_ms(follower)

    def _repaired_ms(self, follower: Following) -> float:
        _ask(self._job.url, "dev_reorg", DEPTH)
        began = time.perf_counter()
        self._catch_up(follower)
        return (time.perf_counter() - began) * 1000

    def _catch_up(self, follower: Following) -> None:
        head = _ask(self._job.url, "eth_getBlockByNumber", "latest", False)
        wanted = bytes.fromhex(head["hash"][2:])
        while not self._job.has(wanted):
            follower.turn()


def _ask(url: str, method: str, *params: Any) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        said = json.load(response)
    if "error" in said:
        raise BenchError(f"{method}: {said['error']}")
    return said["result"]
