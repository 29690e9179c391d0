"""The Dispatcher as a worker sees it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import httpx
from pydantic import BaseModel, TypeAdapter

from trace_platform.domain.errors import DispatcherUnreachable, Unavailable
from trace_platform.wire.problem import error_from
from trace_platform.wire.task import (
    Claimed,
    ClaimRequest,
    ClaimResponse,
    CompleteRequest,
    CompleteResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    NotClaimed,
)

_T = TypeVar("_T")
_claim_response: TypeAdapter[Claimed | NotClaimed] = TypeAdapter(ClaimResponse)


class DispatcherClient:
    """One pooled client for all threads. A call raises the error that the Dispatcher named."""

    def __init__(self, url: str, worker_token: str, ca: Path) -> None:
        self._http = httpx.Client(
            base_url=url,
            verify=ssl.create_default_context(cafile=str(ca)),
            timeout=httpx.Timeout(30, connect=5),
            trust_env=False,
        )
        self._worker = {"X-Trace-Worker-Token": worker_token}

    def claim(self, task_id: UUID, worker_id: str) -> Claimed | NotClaimed:
        body = ClaimRequest(task_id=task_id, worker_id=worker_id)
        return _claim_response.validate_python(
            self._post("/internal/task-claim", body, self._worker)
        )

    def heartbeat(self, request: HeartbeatRequest, token: str) -> HeartbeatResponse:
        answer = self._post("/v1/task/heartbeat", request, _capability(token))
        return HeartbeatResponse.model_validate(answer)

    def complete(self, request: CompleteRequest, token: str) -> CompleteResponse:
        answer = self._post("/v1/task/complete", request, _capability(token))
        return CompleteResponse.model_validate(answer)

    def close(self) -> None:
        self._http.close()

    def _post(self, path: str, body: BaseModel, headers: dict[str, str]) -> Any:
        try:
            response = self._http.post(
                path,
                content=body.model_dump_json(),
                headers={"Content-Type": "application/json", **headers},
            )
        except httpx.TransportError as error:
            raise DispatcherUnreachable(f"the dispatcher does not answer: {error}") from None
        if response.is_success:
            return response.json()
        if "json" not in response.headers.get("content-type", ""):
            raise DispatcherUnreachable(f"the dispatcher answered {response.status_code}")
        raise error_from(response.status_code, response.json())


def _capability(token: str) -> dict[str, str]:
    return {"X-Trace-Task-Capability": token}


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
