"""④ A function is called with a task: claimed in its name, with all that it needs in the call."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog

from trace_platform.dispatcher.claim_task import Grants, claim_task
from trace_platform.dispatcher.complete_task import Completing, complete_task
from trace_platform.domain.errors import InvokeFailed, StaleFence, Unavailable
from trace_platform.domain.runtimes import Runtime
from trace_platform.drivers.invoker import Invoker
from trace_platform.drivers.postgres.database import Database
from trace_platform.wire.task import (
    Claimed,
    ClaimRequest,
    CompleteRequest,
    Invocation,
    NotClaimed,
)

log = structlog.get_logger()

# Of one runtime.
AT_ONCE = 32
# For calls that are under way when the Dispatcher stops. They cost an attempt after that.
GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Invoking:
    state: Database
    grants: Grants
    completing: Completing
    invoker: Invoker
    # Calls wait for functions side by side, and for the database one after the other: claims of a
    # runtime take turns there anyway, and the API needs the other connections.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


async def invoke_task(me: Invoking, runtime: Runtime, task_id: UUID) -> bool:
    """Whether a function took the task; the rest it reports by itself.

    A crash between the claim and the call leaves an attempt without a heartbeat, which is reaped.
    """
    request = ClaimRequest(task_id=task_id, worker_id=runtime.name)
    async with me.turn:
        claimed = await claim_task(me.state, me.grants, request)
    if isinstance(claimed, NotClaimed):
        # It runs, it is over, or it is held: whoever makes room announces it again.
        return False
    try:
        await me.invoker.invoke(runtime, invocation(claimed))
    except Exception as error:
        await _give_up(me, claimed, _named(runtime, error))
        return False
    return True


def invocation(claimed: Claimed) -> Invocation:
    return Invocation(
        **dict(claimed.task),
        lease_token=claimed.lease_token,
        lease_expires_at=claimed.lease_expires_at,
        capability_token=claimed.capability_token,
    )


async def _give_up(me: Invoking, claimed: Claimed, error: InvokeFailed) -> None:
    fence = claimed.fence
    log.warning("invoke_failed", task_id=str(fence.task_id), reason=error.message)
    request = CompleteRequest(
        task_id=fence.task_id,
        attempt=fence.attempt,
        lease_token=fence.lease_token,
        status="Failed",
        error_code=error.code,
        error_message=error.message + (f" ({error.hint})" if error.hint else ""),
        retryable=error.retryable,
    )
    # The function took it all the same, and has ended the attempt before us: that counts.
    with contextlib.suppress(StaleFence):
        async with me.turn:
            await complete_task(me.completing, request)


def _named(runtime: Runtime, error: Exception) -> InvokeFailed:
    """A defect of the driver is named by its type alone: its text may quote the address."""
    if isinstance(error, InvokeFailed):
        return error
    return InvokeFailed(f"calling runtime {runtime.name}: {type(error).__name__}")


class Calls:
    """Calls under way, at most so many of a runtime: one whose functions are slow to answer waits
    for itself alone."""

    def __init__(self, me: Invoking, at_once: int = AT_ONCE, grace_s: float = GRACE_S) -> None:
        self._me = me
        self._at_once = at_once
        self._grace_s = grace_s
        self._slots: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))
        self._owed: Counter[str] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def full(self) -> list[str]:
        """The runtimes that have enough to do for now."""
        return [name for name, owed in self._owed.items() if owed >= self._at_once]

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("call_failed", exc_info=error)

    async def invoke(self, runtime: Runtime, task_ids: Sequence[UUID]) -> None:
        """Returns once all of them were dealt with; raises when one could not be."""
        self._owed[runtime.name] += len(task_ids)
        calls = [self._invoke_one(runtime, task_id) for task_id in task_ids]
        # One that fails must not end the others, which have claimed their tasks.
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    async def _invoke_one(self, runtime: Runtime, task_id: UUID) -> None:
        try:
            async with self._slots[runtime.name]:
                if self._closed:
                    raise Unavailable("the dispatcher stops")
                await invoke_task(self._me, runtime, task_id)
        finally:
            self._owed[runtime.name] -= 1

    async def finish(self, timeout_s: float | None = None) -> None:
        """Wait for what is under way."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=timeout_s)

    async def close(self) -> None:
        """Nothing new starts; what is under way gets a moment."""
        self._closed = True
        await self.finish(self._grace_s)
        left = list(self._under_way)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
