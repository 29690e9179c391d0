"""The follower on a real node and a real Postgres: whatever the chain did, every row is as the node
tells it in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conftest import PostgresServer
from tests.support.anvil import Anvil, anvil
from tests.support.follower_anvil import OPTIONS, Miner
from tests.support.follower_run import TABLES, Job, Row, opened
from tests.support.shared_data import shared_data
from tests.support.slow_rows import SlowRows
from trace_platform.domain.block_range import BlockRange


def told(node: Anvil, head: int) -> dict[str, list[Row]]:
    rows = SlowRows(node.call, BlockRange(0, head))
    return {table: rows[table] for table in TABLES}


def test_sixty_blocks_with_reorgs_end_as_the_node_tells_them(
    postgres: PostgresServer, eventually: Callable[..., None]
) -> None:
    # Eight blocks are final.
    with (
        shared_data(postgres) as dsns,
        opened(dsns.writer) as data,
        anvil(*OPTIONS, "--slots-in-an-epoch", "4") as node,
    ):
        miner = Miner(node, seed=5)
        job = Job(data, node.url, {"start_block": 0, "poll_seconds": 0.02})

        def in_step() -> None:
            eventually(lambda: job.has(miner.head_hash), f"block {miner.head} is written")

        with job.running() as running:
            in_step()
            for depth in (0, 1, 8, 1, 20):
                if depth:
                    # Anvil shows the new chain a block at a time, and so would be followed.
                    with job.paused():
                        miner.reorg(depth)
                    in_step()
                for _ in range(4):
                    miner.mine(3)
                    in_step()
        assert running.error is None
        expected = told(node, miner.head)
        assert miner.head >= 60
        assert job.all_rows() == expected
        assert job.reader.all_rows() == expected
        assert_repaired(job, depths=[1, 8, 1, 20])


def assert_repaired(job: Job, depths: list[int]) -> None:
    assert [facts["depth"] for facts in job.log.of("reorg")] == depths
    for table in ("blocks", "transactions", "logs"):
        spans = [end - start + 1 for kind, start, end in job.said(table) if kind == "again"]
        assert spans == depths
    deep: list[dict[str, Any]] = [alert["facts"] for alert in job.alerts()]
    assert [facts["depth"] for facts in deep] == [20]
    assert deep[0]["new_hash"] != deep[0]["old_hash"]
    assert not deep[0]["deeper_than_known"]
