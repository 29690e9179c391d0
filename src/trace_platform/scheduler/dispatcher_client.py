"""The Dispatcher as the scheduler sees it."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

from trace_platform.domain.errors import DispatcherUnreachable
from trace_platform.drivers.headers import SERVICE_TOKEN
from trace_platform.wire.refusal import DISPATCHER
from trace_platform.wire.sources import ScheduleList, TickRequest
from trace_platform.wire.task import Accepted


class DispatcherClient:
    """A call raises the error that the Dispatcher named, or DispatcherUnreachable."""

    def __init__(self, url: str, service_token: str, ca: Path | None = None) -> None:
        self._http = httpx.Client(
            base_url=url,
            headers={SERVICE_TOKEN: service_token},
            verify=ssl.create_default_context(cafile=ca) if ca else True,
            timeout=httpx.Timeout(10.0, connect=2.0),
            trust_env=False,  # internal calls never go through a proxy
        )

    def schedules(self) -> ScheduleList:
        return DISPATCHER.read(ScheduleList, self._call("GET", "/internal/schedules"))

    def tick(self, request: TickRequest) -> int:
        """How many events are new."""
        body = request.model_dump_json().encode()
        answer = self._call("POST", "/internal/schedules/tick", body)
        return DISPATCHER.read(Accepted, answer).accepted

    def close(self) -> None:
        self._http.close()

    def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        try:
            headers = {"Content-Type": "application/json"} if body else {}
            response = self._http.request(method, path, content=body, headers=headers)
        except httpx.RequestError as error:
            raise DispatcherUnreachable(
                f"the dispatcher does not answer: {str(error) or type(error).__name__}"
            ) from None
        if response.is_success:
            return response.content
        raise DISPATCHER.error(response.status_code, response.content)
