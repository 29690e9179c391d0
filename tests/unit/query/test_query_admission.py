"""Who gets a place, who waits, and who is told to come back."""

from __future__ import annotations

import asyncio

import pytest

from trace_platform.domain.errors import TooManyQueries
from trace_platform.query.service.admission import Admission


class Crowd:
    """Queries that hold their place until they are let go."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.go = asyncio.Event()
        self.inside: list[str] = []
        self.quick: list[str] = []

    async def query(self, caller: str) -> None:
        is_task = caller.startswith("task:")
        async with self.admission.place(caller, is_task=is_task):
            self.inside.append(caller)
            await self.go.wait()

    async def quick_query(self, caller: str, done: asyncio.Event | None = None) -> bool:
        async with self.admission.place(caller, may_be_quick=True) as is_quick:
            self.quick.append(caller)
            await (done or self.go).wait()
            return is_quick

    def come(self, *callers: str) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.query(caller)) for caller in callers]


async def settled() -> None:
    """Everything that can happen without time passing has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_beyond_the_queue_they_are_told_to_come_back() -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=2, waiting=1))
        tasks = crowd.come("a", "b", "c", "c")
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
        assert crowd.inside == ["greedy", "modest", "greedy"]
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


def test_one_caller_never_holds_all_places() -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=3))
        tasks = crowd.come(*["greedy"] * 8)
        await settled()
        assert crowd.inside == ["greedy"] * 2
        tasks += crowd.come("owner")
        await settled()
        assert crowd.inside == ["greedy", "greedy", "owner"]
        crowd.go.set()
        await asyncio.gather(*tasks)
        assert (crowd.admission.running, crowd.admission.waiting) == (0, 0)

    asyncio.run(scenario())


def test_callers_take_turns_however_many_one_of_them_has_waiting() -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=1))
        tasks = crowd.come("holder", *["greedy"] * 4, "ann", "ann", "ben")
        await settled()
        crowd.go.set()
        await asyncio.gather(*tasks)
        assert crowd.inside == [
            *("holder", "greedy", "ann", "ben", "greedy", "ann", "greedy", "greedy")
        ]

    asyncio.run(scenario())


def test_a_user_who_asks_nothing_else_may_wait_whoever_fills_the_queue() -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=1, waiting=3))
        tasks = crowd.come("holder", "task:1", "task:2", "task:3")
        await settled()
        (refused,) = crowd.come("task:4")
        with pytest.raises(TooManyQueries):
            await refused
        tasks += crowd.come("owner")
        await settled()
        (second,) = crowd.come("owner")
        with pytest.raises(TooManyQueries):
            await second
        crowd.go.set()
        await asyncio.gather(*tasks)
        assert "owner" in crowd.inside

    asyncio.run(scenario())


def test_what_finds_no_place_tries_the_quick_one_and_callers_take_turns_there_too() -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=2, max_wait_s=60))
        slow = crowd.come("task:1", "ann")
        await settled()
        turns = [asyncio.Event() for _ in range(4)]
        callers = ("greedy", "greedy", "greedy", "owner")
        quick = [
            asyncio.create_task(crowd.quick_query(caller, turn))
            for caller, turn in zip(callers, turns, strict=True)
        ]
        await settled()
        assert crowd.quick == ["greedy"], "it is one place"
        assert crowd.admission.running == 3
        turns[0].set()
        await settled()
        assert crowd.quick == ["greedy", "owner"], "the owner's turn, though others came before"
        for turn in turns:
            turn.set()
        assert await asyncio.gather(*quick) == [True] * 4
        crowd.go.set()
        await asyncio.gather(*slow)
        assert await crowd.quick_query("owner") is False, "where there is room, none has to hurry"
        assert (crowd.admission.running, crowd.admission.waiting) == (0, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_one_that_leaves_as_it_gets_its_place_gives_it_back(rounds: int) -> None:
    """Cancelled in the same step of the loop in which the place before becomes free."""

    async def scenario() -> None:
        crowd = Crowd(Admission(running=1))
        first, *others = crowd.come("a", *"bcd"[:rounds])
        await settled()
        crowd.go.set()
        first.cancel()
        for each in others:
            each.cancel()
        await asyncio.gather(first, *others, return_exceptions=True)
        await crowd.query("z")
        assert (crowd.admission.running, crowd.admission.waiting) == (0, 0)

    asyncio.run(scenario())


def test_one_whose_place_came_but_who_was_stopped_before_it_looked_gives_it_back() -> None:
    async def scenario() -> None:
        crowd = Crowd(Admission(running=1))
        first, second = crowd.come("a", "b")
        await settled()
        first.cancel()
        await asyncio.sleep(0)  # the first leaves
        assert crowd.admission.waiting == 0
        second.cancel()  # its place is given, and it has not run since
        await asyncio.gather(first, second, return_exceptions=True)
        assert "b" not in crowd.inside
        crowd.go.set()
        await crowd.query("z")
        assert (crowd.admission.running, crowd.admission.waiting) == (0, 0)

    asyncio.run(scenario())
