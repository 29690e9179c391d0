"""What the query service asks and tells the Dispatcher."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import httpx
from pydantic import BaseModel

from trace_platform.domain.errors import DispatcherUnreachable
from trace_platform.drivers.headers import SERVICE_TOKEN
from trace_platform.wire.query import (
    DatasetList,
    DatasetPage,
    DatasetRef,
    QueryHistory,
    QueryRecord,
    RecordQueries,
    ResolvedDataset,
    ResolveRequest,
    ResolveResponse,
)
from trace_platform.wire.refusal import DISPATCHER

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5
_PASSING = frozenset({502, 503, 504})

M = TypeVar("M", bound=BaseModel)


class DispatcherClient:
    """The truth of this moment, never a cached answer. A restart of the Dispatcher is a short delay
    here, not an error."""

    def __init__(
        self, url: str, service_token: str, ca: Path | None = None, *, patience_s: float = 15.0
    ) -> None:
        verify = ssl.create_default_context(cafile=ca) if ca else True
        self._patience_s = patience_s
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={SERVICE_TOKEN: service_token},
            verify=verify,
            timeout=httpx.Timeout(10.0, connect=2.0),
            limits=httpx.Limits(max_connections=32, keepalive_expiry=60.0),
            trust_env=False,  # internal calls never go through a proxy
        )

    async def resolve(
        self, datasets: Sequence[DatasetRef], *, files: bool = True
    ) -> list[ResolvedDataset]:
        """In the order of the request. Raise UnknownDataset, GenerationPurged, BadInput."""
        body = ResolveRequest(datasets=list(datasets), files=files)
        return (
            await self._ask("POST", "/internal/datasets/resolve", ResolveResponse, body)
        ).datasets

    async def datasets(self) -> DatasetList:
        return await self._ask("GET", "/internal/datasets", DatasetList)

    async def dataset(self, name: str) -> DatasetPage:
        return await self._ask("GET", f"/internal/datasets/{quote(name, safe='')}", DatasetPage)

    async def record(self, queries: Sequence[QueryRecord]) -> None:
        await self._send("POST", "/internal/queries", RecordQueries(queries=list(queries)))

    async def history(self, caller: str, limit: int) -> QueryHistory:
        query = urlencode({"caller": caller, "limit": limit})
        return await self._ask("GET", f"/internal/queries?{query}", QueryHistory)

    async def _ask(self, method: str, path: str, kind: type[M], body: BaseModel | None = None) -> M:
        return DISPATCHER.read(kind, await self._send(method, path, body))

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, method: str, path: str, body: BaseModel | None = None) -> bytes:
        """Raise DispatcherUnreachable when there is no useful answer in `patience_s`. Every call
        may be made twice."""
        content = body.model_dump_json().encode() if body is not None else None
        clock = asyncio.get_running_loop().time
        give_up, pause = clock() + self._patience_s, _FIRST_PAUSE_S
        while True:
            try:
                response = await self._http.request(
                    method, path, content=content, headers={"Content-Type": "application/json"}
                )
                if response.is_success:
                    return response.content
                if response.status_code not in _PASSING:
                    raise DISPATCHER.error(response.status_code, response.content)
                problem = f"it answered {response.status_code}"
            except httpx.RequestError as error:
                problem = str(error) or type(error).__name__
            if clock() + pause > give_up:
                raise DispatcherUnreachable(
                    f"the dispatcher does not answer: {problem}",
                    hint="see `trace status`, and try again",
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
