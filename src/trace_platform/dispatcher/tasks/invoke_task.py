"""④ Functions are called with tasks: claimed in their name, with all that they need in the call."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog

from trace_platform.dispatcher.tasks.claim_task import Grants, claim_tasks
from trace_platform.dispatcher.tasks.complete_task import Completing, complete_task
from trace_platform.domain.errors import InvokeFailed, StaleFence, TraceError, Unavailable
from trace_platform.domain.fence import Fence
from trace_platform.domain.runtimes import Runtime
from trace_platform.drivers.invoker import Invoker
from trace_platform.drivers.postgres.database import Database
from trace_platform.wire.task import Claimed, CompleteRequest, Invocation

log = structlog.get_logger()

# Calls of one runtime that wait for their acceptance.
AT_ONCE = 32
# For calls that are under way when the Dispatcher stops. They cost an attempt after that.
GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Invoking:
    state: Database
    grants: Grants
    completing: Completing
    invoker: Invoker
    # When many calls fail at once, they take one connection to say so: the API needs the others.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


async def invoke_task(services: Invoking, runtime: Runtime, claimed: Claimed) -> None:
    """Returns once the function took the task, and it reports the rest; or when it did not, and
    the attempt has failed."""
    try:
        await services.invoker.invoke(runtime, invocation(claimed))
    except Exception as error:
        await _give_up(services, claimed, _named(runtime, error))


def invocation(claimed: Claimed) -> Invocation:
    return Invocation(
        **dict(claimed.task),
        lease_token=claimed.lease_token,
        lease_expires_at=claimed.lease_expires_at,
        capability_token=claimed.capability_token,
    )


async def _give_up(services: Invoking, claimed: Claimed, error: InvokeFailed) -> None:
    log.warning("invoke_failed", task_id=str(claimed.task.task_id), reason=error.message)
    # The function took it all the same, and has ended the attempt before us: that counts.
    with contextlib.suppress(StaleFence):
        async with services.turn:
            await complete_task(services.completing, failed(claimed.fence, error))


def failed(fence: Fence, error: TraceError) -> CompleteRequest:
    return CompleteRequest(
        task_id=fence.task_id,
        attempt=fence.attempt,
        lease_token=fence.lease_token,
        status="Failed",
        error_code=error.code,
        error_message=error.message + (f" ({error.hint})" if error.hint else ""),
        retryable=error.retryable,
    )


def _named(runtime: Runtime, error: Exception) -> InvokeFailed:
    """A defect of the driver is named by its type alone: its text may quote the address."""
    if isinstance(error, InvokeFailed):
        return error
    return InvokeFailed(f"calling runtime {runtime.name}: {type(error).__name__}")


class Calls:
    """Calls under way, at most so many of a runtime: one that is slow to answer keeps its slot,
    and the others do not notice."""

    def __init__(
        self,
        services: Invoking,
        idle: Callable[[], None] = lambda: None,
        at_once: int = AT_ONCE,
        grace_s: float = GRACE_S,
    ) -> None:
        """`idle` hears that a runtime is no longer busy: what was left for it can be looked at."""
        self._me = services
        self._idle = idle
        self._grace_s = grace_s
        self._slots: dict[str, _Slots] = defaultdict(lambda: _Slots(at_once))
        self._filling: dict[str, asyncio.Task[None]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def busy(self) -> list[str]:
        """The runtimes whose due tasks are being called already."""
        return list(self._filling)

    def start(self, runtime: str, filling: Coroutine[Any, Any, None]) -> None:
        """In the background: what `call_due` is part of. The runtime is busy until it ends."""
        task = self._filling[runtime] = asyncio.create_task(filling)
        task.add_done_callback(lambda _: self._ended(runtime))

    def _ended(self, runtime: str) -> None:
        self._filling.pop(runtime, None)
        self._idle()

    async def call_due(self, runtime: Runtime) -> None:
        """Claims and calls, as slots become free, until nothing of the runtime is due.

        A crash between a claim and its call leaves an attempt without a heartbeat: it is reaped.
        """
        while await self._fill(runtime):
            pass

    async def _fill(self, runtime: Runtime) -> bool:
        """Whether there may be more to do: every free slot found a task."""
        slots = self._slots[runtime.name]
        free, claimed = await slots.take(), []
        try:
            if self._closed:
                raise Unavailable("the dispatcher stops")
            names = [runtime.name] * free
            claimed = await claim_tasks(self._me.state, self._me.grants, runtime.name, names)
        finally:
            slots.give_back(free - len(claimed))
        for _, each in claimed:
            call = asyncio.create_task(self._call(runtime, each, slots))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        return len(claimed) == free

    async def _call(self, runtime: Runtime, claimed: Claimed, slots: _Slots) -> None:
        try:
            await invoke_task(self._me, runtime, claimed)
        except Exception as error:
            # Its attempt has no end now, and is reaped.
            log.warning("call_has_no_end", task_id=str(claimed.task.task_id), reason=str(error))
        finally:
            slots.give_back(1)

    async def finish(self) -> None:
        """Wait for all that is under way."""
        while under_way := [*self._filling.values(), *self._calls]:
            await asyncio.wait(under_way)

    async def close(self) -> None:
        """Nothing new starts; what is under way gets a moment."""
        self._closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                await self.finish()
        left = [*self._filling.values(), *self._calls]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class _Slots:
    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    async def take(self) -> int:
        """All that are free, when at least one is."""
        await self._free.acquire()
        taken = 1
        while not self._free.locked():
            await self._free.acquire()
            taken += 1
        return taken

    def give_back(self, count: int) -> None:
        for _ in range(count):
            self._free.release()
