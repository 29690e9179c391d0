"""Asks the Dispatcher which datasets are published and which files they have now."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Protocol

import httpx
from pydantic import ValidationError

from trace_platform.domain.errors import DispatcherUnreachable
from trace_platform.wire.problem import error_from
from trace_platform.wire.query import ResolvedDataset, ResolveResponse

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5
_PASSING = frozenset({502, 503, 504})


class Resolver(Protocol):
    """The truth about published datasets at this moment; never a cached answer."""

    async def datasets(self) -> list[ResolvedDataset]: ...


class DispatcherClient:
    """A restart of the Dispatcher is a short delay here, not an error."""

    def __init__(
        self, url: str, service_token: str, ca: Path | None = None, *, patience_s: float = 15.0
    ) -> None:
        verify = ssl.create_default_context(cafile=ca) if ca else True
        self._patience_s = patience_s
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"X-Trace-Service-Token": service_token},
            verify=verify,
            timeout=httpx.Timeout(10.0, connect=2.0),
            trust_env=False,  # internal calls never go through a proxy
        )

    async def datasets(self) -> list[ResolvedDataset]:
        """Raise DispatcherUnreachable when there is no useful answer in `patience_s`."""
        response = await self._get("/internal/datasets")
        try:
            return ResolveResponse.model_validate_json(response.content).datasets
        except ValidationError as error:
            raise DispatcherUnreachable(
                "the dispatcher's list of datasets cannot be read",
                hint="are both parts of the same version?",
            ) from error

    async def close(self) -> None:
        await self._http.aclose()

    async def _get(self, path: str) -> httpx.Response:
        clock = asyncio.get_running_loop().time
        give_up, pause = clock() + self._patience_s, _FIRST_PAUSE_S
        while True:
            problem: object
            try:
                response = await self._http.get(path)
                if response.is_success:
                    return response
                if response.status_code not in _PASSING:
                    _raise_named(response)
                problem = f"it answered {response.status_code}"
            except httpx.TransportError as error:
                problem = error or type(error).__name__
            if clock() + pause > give_up:
                raise DispatcherUnreachable(
                    f"the dispatcher does not answer: {problem}",
                    hint="see `trace status`, and try again",
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def _raise_named(response: httpx.Response) -> None:
    try:
        body = response.json()
    except ValueError:
        body = {}
    raise error_from(response.status_code, body if isinstance(body, dict) else {})
