"""What arrives while a batch is under way becomes the next; everybody gets their own answer."""

from __future__ import annotations

import asyncio

import pytest

from trace_platform.dispatcher.tasks.coalesce import Coalesced
from trace_platform.domain.errors import BadInput, TraceError, Unavailable

pytestmark = pytest.mark.anyio


class Doubling:
    """A batch that waits until it is let go, and refuses odd numbers."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()

    async def run(self, items: list[int]) -> list[int | TraceError]:
        self.batches.append(items)
        await self.gate.wait()
        return [item * 2 if item % 2 == 0 else BadInput(str(item)) for item in items]


async def test_callers_share_batches_and_get_their_own_answers() -> None:
    work = Doubling()
    calls = Coalesced(work.run, limit=3)
    asked = [asyncio.create_task(calls.call(n)) for n in (0, 2, 4, 6, 8, 10)]
    await asyncio.sleep(0)
    work.gate.set()
    assert await asyncio.gather(*asked) == [0, 4, 8, 12, 16, 20]
    assert [len(batch) for batch in work.batches] == [3, 3]


async def test_one_that_is_refused_hurts_nobody_else() -> None:
    work = Doubling()
    work.gate.set()
    calls = Coalesced(work.run)
    answers = await asyncio.gather(*(calls.call(n) for n in (2, 3, 4)), return_exceptions=True)
    assert [answers[0], answers[2]] == [4, 8]
    assert isinstance(answers[1], BadInput)


async def test_a_batch_that_fails_fails_for_all_in_it_and_the_next_goes_on() -> None:
    failing = [True]

    async def run(items: list[int]) -> list[int | TraceError]:
        if failing.pop() if failing else False:
            raise Unavailable("away")
        return list(items)

    calls = Coalesced(run)
    for answer in await asyncio.gather(calls.call(1), calls.call(2), return_exceptions=True):
        assert isinstance(answer, Unavailable)
    assert await calls.call(3) == 3


async def test_a_caller_that_leaves_does_not_disturb_the_others() -> None:
    work = Doubling()
    calls = Coalesced(work.run)
    gone, stays = asyncio.create_task(calls.call(2)), asyncio.create_task(calls.call(4))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gone.cancel()
    work.gate.set()
    assert await stays == 8
    assert gone.cancelled() or gone.cancelling()
