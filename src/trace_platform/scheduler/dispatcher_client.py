"""The Dispatcher as the scheduler sees it."""

from __future__ import annotations

from pathlib import Path

from trace_platform.drivers.dispatcher_calls import DispatcherCalls
from trace_platform.drivers.headers import SERVICE_TOKEN
from trace_platform.wire.refusal import DISPATCHER
from trace_platform.wire.sources import ScheduleList, TickRequest
from trace_platform.wire.task import Accepted


class DispatcherClient:
    """A call raises the error that the Dispatcher named, or DispatcherUnreachable."""

    def __init__(self, url: str, service_token: str, ca: Path | None = None) -> None:
        self._calls = DispatcherCalls(url, ca, {SERVICE_TOKEN: service_token}, timeout_s=10)

    def schedules(self) -> ScheduleList:
        return DISPATCHER.read(ScheduleList, self._calls.get("/internal/schedules"))

    def tick(self, request: TickRequest) -> int:
        """How many events are new."""
        answer = self._calls.post("/internal/schedules/tick", request)
        return DISPATCHER.read(Accepted, answer).accepted

    def close(self) -> None:
        self._calls.close()
