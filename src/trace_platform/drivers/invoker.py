"""Calls the function behind a runtime."""

from __future__ import annotations

from typing import Protocol

from trace_platform.domain.runtimes import Runtime
from trace_platform.wire.task import Invocation


class Invoker(Protocol):
    """At-least-once and asynchronous: a call that returns was accepted, and the function reports
    by itself; one that raises may have been accepted all the same. A call is never repeated here:
    retries are the Dispatcher's."""

    async def invoke(self, runtime: Runtime, payload: Invocation) -> None:
        """Raise InvokeFailed when the call was not accepted in time.

        The error is kept with the attempt and shown to people: neither the address, which may
        hold a key, nor anything of the payload or the answer is in it.
        """

    async def close(self) -> None: ...
