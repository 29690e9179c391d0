"""The Dispatcher as a worker sees it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trace_platform.domain.errors import TraceError
from trace_platform.domain.worker_identity import WorkerIdentity
from trace_platform.drivers.dispatcher_calls import DispatcherCalls
from trace_platform.drivers.headers import TASK_CAPABILITY, WORKER_TOKEN
from trace_platform.wire.operator_state import StateResponse
from trace_platform.wire.refusal import DISPATCHER, error_from
from trace_platform.wire.task import (
    Accepted,
    ClaimBatchRequest,
    ClaimBatchResponse,
    Claimed,
    CompleteBatchRequest,
    CompleteBatchResponse,
    CompleteRequest,
    CompleteResponse,
    EventsRequest,
    Fenced,
    HeartbeatBatchRequest,
    HeartbeatBatchResponse,
    HeartbeatResponse,
    Problem,
    TakeOverRequest,
    TakeOverResponse,
)


class DispatcherClient:
    """One pooled client for all threads. A call raises the error that the Dispatcher named."""

    def __init__(self, url: str, worker_token: str, ca: Path) -> None:
        self._calls = DispatcherCalls(url, ca, {WORKER_TOKEN: worker_token})

    def take_over(self, identity: WorkerIdentity) -> int:
        """What this worker held before it was started again is given up. How many attempts."""
        body = TakeOverRequest(identity=identity.name, incarnation=identity.incarnation)
        answer = self._calls.post("/internal/worker-starts", body)
        return DISPATCHER.read(TakeOverResponse, answer).given_up

    def claim(
        self, runtime: str, worker_id: str, max_tasks: int, *, sources: bool = False
    ) -> list[Claimed]:
        """At most so many runs of sources, or tasks that end: the Dispatcher's choice."""
        body = ClaimBatchRequest(
            runtime=runtime, worker_id=worker_id, max_tasks=max_tasks, sources=sources
        )
        answer = self._calls.post("/internal/task-claims", body)
        return DISPATCHER.read(ClaimBatchResponse, answer).claimed

    def heartbeats(self, request: HeartbeatBatchRequest) -> list[HeartbeatResponse | TraceError]:
        """In the order of the beats."""
        answer = self._calls.post("/internal/task-heartbeats", request)
        results = DISPATCHER.read(HeartbeatBatchResponse, answer).results
        return [result.lease or _error(result.problem) for result in results]

    def complete(self, requests: Sequence[CompleteRequest]) -> list[CompleteResponse | TraceError]:
        """In the order of the requests."""
        body = CompleteBatchRequest(completions=list(requests))
        answer = self._calls.post("/internal/task-completions", body)
        results = DISPATCHER.read(CompleteBatchResponse, answer).results
        return [result.completion or _error(result.problem) for result in results]

    def emit(self, request: EventsRequest, capability_token: str) -> int:
        """Events of an attempt that goes on. How many of them are new."""
        shown = {TASK_CAPABILITY: capability_token}
        answer = self._calls.post("/v1/task/events", request, shown)
        return DISPATCHER.read(Accepted, answer).accepted

    def state(self, fence: Fenced, capability_token: str) -> dict[str, Any]:
        """What earlier attempts of the job have kept, by key."""
        shown = {TASK_CAPABILITY: capability_token}
        answer = self._calls.post("/v1/task/state", fence, shown)
        return DISPATCHER.read(StateResponse, answer).state

    def operator_code(self, digest: str) -> bytes:
        """Of an operator that lies beside a DAG: its files, as canonical JSON."""
        return self._calls.get(f"/internal/operator-code/{digest}")

    def close(self) -> None:
        self._calls.close()


def _error(problem: Problem | None) -> TraceError:
    return error_from(0, problem.model_dump() if problem else {})
