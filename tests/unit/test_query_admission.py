"""Who gets a place, who waits, and who is told to come back."""

from __future__ import annotations

import asyncio

import pytest

from trace_platform.domain.errors import TooManyQueries
from trace_platform.query.admission import Admission


class Crowd:
    """Queries that hold their place until they are let go."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.go = asyncio.Event()
        self.inside: list[str] = []

    async def query(self, caller: str) -> None:
        async with self.admission.place(caller, is_task=caller.startswith("task:")):
            self.inside.append(caller)
            await self.go.wait()

    def come(self, *callers: str) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.query(caller)) for caller in callers]


async def settled() -> None:
    """Everything that can happen without time passing has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_beyond_the_queue_they_are_told_to_come_back() -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=2, waiting=1))
        tasks = crowd.come("a", "b", "c", "d")
        await settled()
        assert crowd.inside == ["a", "b"]
        assert (crowd.admission.running, crowd.admission.waiting) == (2, 1)
        with pytest.raises(TooManyQueries, match="2 queries are running and 1 are waiting") as told:
            await tasks[3]
        assert told.value.facts["retry_after_s"] == 2
        crowd.go.set()
        await asyncio.gather(*tasks[:3])
        assert crowd.inside == ["a", "b", "c"]
        assert (crowd.admission.running, crowd.admission.waiting) == (0, 0)

    asyncio.run(scenario())


def test_nobody_holds_more_than_their_share() -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=1, waiting=10, per_caller=2))
        tasks = crowd.come("greedy", "greedy", "greedy", "modest")
        await settled()
        with pytest.raises(TooManyQueries, match="you have 2 queries under way"):
            await tasks[2]
        crowd.go.set()
        await asyncio.gather(*tasks[:2], tasks[3])
        assert crowd.inside == ["greedy", "greedy", "modest"]
        # Their share is theirs again.
        await crowd.query("greedy")

    asyncio.run(scenario())


def test_waiting_ends() -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=1, waiting=5, max_wait_s=0.01))
        first, second = crowd.come("a", "b")
        with pytest.raises(TooManyQueries):
            await second
        assert crowd.admission.waiting == 0
        crowd.go.set()
        await first

    asyncio.run(scenario())


@pytest.mark.parametrize("which", [0, 1], ids=["running", "waiting"])
def test_one_that_is_cancelled_gives_its_place_back(which: int) -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=1, waiting=1, per_caller=1))
        tasks = crowd.come("a", "b")
        await settled()
        tasks[which].cancel()
        await asyncio.gather(tasks[which], return_exceptions=True)
        crowd.go.set()
        await tasks[1 - which]
        await asyncio.gather(*crowd.come("a", "b"))
        assert crowd.admission.running == 0

    asyncio.run(scenario())


def test_tasks_leave_a_place_to_users() -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=2, waiting=10))
        tasks = crowd.come("task:1", "task:2", "task:3", "ann")
        await settled()
        assert crowd.inside == ["task:1", "ann"]
        crowd.go.set()
        await asyncio.gather(*tasks)
        assert (crowd.admission.running, crowd.admission.waiting) == (0, 0)

    asyncio.run(scenario())
