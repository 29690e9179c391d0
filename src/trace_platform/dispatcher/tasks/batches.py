"""What many callers ask for at once is done in one transaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.tasks.coalesce import Coalesced
from trace_platform.dispatcher.tasks.complete_task import complete_tasks
from trace_platform.dispatcher.tasks.heartbeat import heartbeat
from trace_platform.domain.errors import TraceError, Unavailable
from trace_platform.wire import task

# Below the time that a worker waits for an answer.
FORGET_CLAIM_S = 15.0
# A claim, and when it came.
Asked = tuple[task.ClaimBatchRequest, float]
HeartbeatOutcome = task.HeartbeatResponse | TraceError
Ended = task.CompleteResponse | TraceError


class Batches:
    """What many callers ask for at once is done in one transaction."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._me = dispatcher
        self._beats = Coalesced(self._beat_all)
        self._ends = Coalesced(self._end_all)
        self._claims: dict[tuple[str, bool], Coalesced[Asked, list[task.Claimed]]] = {}

    async def claim(self, request: task.ClaimBatchRequest) -> list[task.Claimed]:
        self._me.runtimes.get(request.runtime)
        kind = request.runtime, request.sources
        if kind not in self._claims:
            self._claims[kind] = Coalesced(self._claim_all, limit=10)
        return await self._claims[kind].call((request, time.monotonic()))

    async def heartbeats(self, requests: Sequence[task.HeartbeatRequest]) -> list[HeartbeatOutcome]:
        return await self._beats.call(requests) if requests else []

    async def completions(self, requests: Sequence[task.CompleteRequest]) -> list[Ended]:
        """Those that commit outputs wait for the object store, so nobody else waits with them."""
        alone = [request for request in requests if request.outputs]
        together = [request for request in requests if not request.outputs]
        answers = dict(zip(map(id, together), await self._end(together), strict=True))
        committed = await asyncio.gather(*(complete_tasks(self._me.completing, [r]) for r in alone))
        answers |= {
            id(request): answer for request, (answer,) in zip(alone, committed, strict=True)
        }
        return [answers[id(request)] for request in requests]

    async def _end(self, requests: Sequence[task.CompleteRequest]) -> list[Ended]:
        return await self._ends.call(requests) if requests else []

    async def _beat_all(
        self, batch: list[Sequence[task.HeartbeatRequest]]
    ) -> list[list[HeartbeatOutcome] | TraceError]:
        answers = iter(await heartbeat(self._me.state, [one for many in batch for one in many]))
        return [[next(answers) for _ in many] for many in batch]

    async def _end_all(
        self, batch: list[Sequence[task.CompleteRequest]]
    ) -> list[list[Ended] | TraceError]:
        ends = [one for many in batch for one in many]
        answers = iter(await complete_tasks(self._me.completing, ends))
        return [[next(answers) for _ in many] for many in batch]

    async def _claim_all(self, asked: list[Asked]) -> list[list[task.Claimed] | TraceError]:
        # Whoever asked so long ago has gone: what it got would wait for nobody.
        if any(time.monotonic() - since > FORGET_CLAIM_S for _, since in asked):
            raise Unavailable("the claim took too long", hint="ask again")
        batch = [request for request, _ in asked]
        names = [request.worker_id for request in batch for _ in range(request.max_tasks)]
        first = batch[0]
        found = await claim_tasks(
            self._me.state, self._me.grants, first.runtime, names, sources=first.sources
        )
        return _dealt(batch, found)


def _dealt(
    batch: list[task.ClaimBatchRequest], found: Sequence[tuple[str, task.Claimed]]
) -> list[list[task.Claimed] | TraceError]:
    """To each request what its worker got; one worker that asks twice fills the first request."""
    by_worker: dict[str, list[task.Claimed]] = {}
    for worker_id, claimed in found:
        by_worker.setdefault(worker_id, []).append(claimed)
    dealt: list[list[task.Claimed] | TraceError] = []
    for request in batch:
        theirs = by_worker.get(request.worker_id, [])
        dealt.append(theirs[: request.max_tasks])
        by_worker[request.worker_id] = theirs[request.max_tasks :]
    return dealt
