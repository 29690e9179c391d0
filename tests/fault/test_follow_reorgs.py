"""Five hundred blocks, reorgs past finality, and followers that are killed or linger: in the end
every table equals a rebuild from the node, and so does what a reader of the announcements has."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.conftest import PostgresServer
from tests.support.anvil import anvil
from tests.support.follower_anvil import OPTIONS, Miner
from tests.support.follower_run import Job, Running, opened, rebuilt
from tests.support.shared_data import shared_data
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import StaleFence, Unavailable

pytestmark = pytest.mark.long

BLOCKS = 500
DEPTHS = (1, 8, 70, 1, 8, 70, 1, 8)


class Killed(BaseException):
    """A process that ends here: nothing is caught, nothing is finished."""


class Killer:
    """Ends attempts at a point that the dice choose: at a directive's check, right before an
    announcement is sent, right after it. Or does not, and a second attempt starts beside it."""

    def __init__(self, job: Job, seed: int) -> None:
        self._job = job
        self._rng = random.Random(seed)
        self._attempts = [job.start()]
        self.kills = 0

    @property
    def current(self) -> Running:
        return self._attempts[-1]

    def strike(self) -> None:
        self.kills += 1
        point = self._rng.choice(["check", "before_emit", "after_emit", "none"])
        if point != "none":
            self._arm(point, self._rng.randint(0, 5))
            return
        self._replace()

    def revive(self) -> None:
        """Another attempt for one that was killed."""
        if self.current.has_ended:
            assert isinstance(self.current.error, Killed | StaleFence | Unavailable)
            self._replace()

    def end(self) -> None:
        self._disarm()
        self._job.drain.set()
        for attempt in self._attempts:
            attempt.join()

    def _replace(self) -> None:
        self._disarm()
        self._attempts.append(self._job.start())

    def _arm(self, point: str, passes: int) -> None:
        left = iter(range(passes))

        def kill() -> None:
            if next(left, None) is None:
                raise Killed

        setattr(self._job, point, kill)

    def _disarm(self) -> None:
        for point in ("check", "before_emit", "after_emit"):
            setattr(self._job, point, lambda: None)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_reorgs_and_kills_leave_the_nodes_chain(
    postgres: PostgresServer, eventually: Callable[..., None], seed: int
) -> None:
    rng = random.Random(seed)
    with (
        shared_data(postgres) as dsns,
        opened(dsns.writer) as data,
        anvil(*OPTIONS) as node,
    ):
        miner = Miner(node, seed)
        config = {"start_block": 0, "poll_seconds": 0.02, "batch_blocks": rng.choice([5, 50])}
        job = Job(data, node.url, config)
        killer = Killer(job, seed)

        def in_step() -> bool:
            killer.revive()
            return job.has(miner.head_hash)

        depths = list(DEPTHS)
        while miner.head < BLOCKS:
            miner.mine(rng.randint(1, 4))
            killer.revive()
            if rng.random() < 0.15:
                killer.strike()
            if depths and miner.head > (len(DEPTHS) - len(depths) + 1) * BLOCKS // 9:
                # The old chain is written, so that there is something to repair.
                eventually(in_step, f"block {miner.head} is written", timeout_s=120)
                miner.reorg(depths.pop(0))
        eventually(in_step, "the head is written", timeout_s=120)
        killer.end()
        with job.running():
            eventually(lambda: job.has(miner.head_hash))
        expected = rebuilt(node.url, BlockRange(0, miner.head))
        assert job.all_rows() == expected
        assert job.reader.all_rows() == expected
        assert [row["block_number"] for row in expected["blocks"]] == list(range(miner.head + 1))
        assert {alert["code"] for alert in job.alerts()} == {"deep_reorg"}
        assert sorted(alert["facts"]["depth"] for alert in job.alerts()) == [70, 70]
        found = [facts["depth"] for facts in job.log.of("reorg")]
        print(f"seed {seed}: {miner.head} blocks, {killer.kills} kills, reorgs {found}")
