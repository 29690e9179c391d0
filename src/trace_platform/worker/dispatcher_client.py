"""The Dispatcher as a worker sees it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import httpx
from pydantic import BaseModel

from trace_platform.domain.errors import DispatcherUnreachable, TraceError, Unavailable
from trace_platform.wire.problem import error_from
from trace_platform.wire.task import (
    ClaimBatchRequest,
    ClaimBatchResponse,
    Claimed,
    CompleteBatchRequest,
    CompleteBatchResponse,
    CompleteRequest,
    CompleteResponse,
    HeartbeatBatchRequest,
    HeartbeatBatchResponse,
    HeartbeatResponse,
    Problem,
)
from trace_platform.worker.batched_call import BatchedCall

_T = TypeVar("_T")


class DispatcherClient:
    """One pooled client for all threads. A call raises the error that the Dispatcher named."""

    def __init__(self, url: str, worker_token: str, ca: Path) -> None:
        self._http = httpx.Client(
            base_url=url,
            verify=ssl.create_default_context(cafile=str(ca)),
            timeout=httpx.Timeout(30, connect=5),
            trust_env=False,
            headers={"Content-Type": "application/json", "X-Trace-Worker-Token": worker_token},
        )
        self._completions = BatchedCall(self._complete_all)

    def claim(self, runtime: str, worker_id: str, max_tasks: int) -> list[Claimed]:
        """At most so many tasks, the Dispatcher's choice."""
        body = ClaimBatchRequest(runtime=runtime, worker_id=worker_id, max_tasks=max_tasks)
        answer = self._post("/internal/task-claims", body)
        return ClaimBatchResponse.model_validate_json(answer).claimed

    def heartbeats(self, request: HeartbeatBatchRequest) -> list[HeartbeatResponse | TraceError]:
        """In the order of the beats."""
        answer = self._post("/internal/task-heartbeats", request)
        results = HeartbeatBatchResponse.model_validate_json(answer).results
        return [result.lease or _error(result.problem) for result in results]

    def complete(self, request: CompleteRequest) -> CompleteResponse:
        """Goes out with what the other threads report at this moment."""
        return self._completions.call(request)

    def _complete_all(self, requests: list[CompleteRequest]) -> list[CompleteResponse | TraceError]:
        answer = self._post(
            "/internal/task-completions", CompleteBatchRequest(completions=requests)
        )
        results = CompleteBatchResponse.model_validate_json(answer).results
        return [result.completion or _error(result.problem) for result in results]

    def close(self) -> None:
        self._http.close()

    def _post(self, path: str, body: BaseModel) -> bytes:
        try:
            response = self._http.post(path, content=body.model_dump_json())
        except httpx.TransportError as error:
            raise DispatcherUnreachable(f"the dispatcher does not answer: {error}") from None
        if response.is_success:
            return response.content
        if "json" not in response.headers.get("content-type", ""):
            raise DispatcherUnreachable(f"the dispatcher answered {response.status_code}")
        raise error_from(response.status_code, response.json())


def _error(problem: Problem | None) -> TraceError:
    return error_from(0, problem.model_dump() if problem else {})


def insist(call: Callable[[], _T], give_up_after_s: float, wait: Callable[[float], None]) -> _T:
    """Repeat a call while the Dispatcher is away: an outage must not cost a finished attempt."""
    deadline = time.monotonic() + give_up_after_s
    pause_s = 0.1
    while True:
        try:
            return call()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            wait(pause_s)
            pause_s = min(pause_s * 2, 5.0)
