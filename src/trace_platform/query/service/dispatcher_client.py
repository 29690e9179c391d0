"""What the query service asks and tells the Dispatcher."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from trace_platform.domain.errors import DispatcherUnreachable
from trace_platform.drivers.dispatcher_calls import AsyncDispatcherCalls
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

M = TypeVar("M", bound=BaseModel)


class DispatcherClient:
    """The truth of this moment, never a cached answer. A restart of the Dispatcher is a short delay
    here, not an error."""

    def __init__(
        self, url: str, service_token: str, ca: Path | None = None, *, patience_s: float = 15.0
    ) -> None:
        self._patience_s = patience_s
        self._calls = AsyncDispatcherCalls(url, service_token, ca)

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
        await self._calls.close()

    async def _send(self, method: str, path: str, body: BaseModel | None = None) -> bytes:
        """Raise DispatcherUnreachable when there is no useful answer in `patience_s`. Every call
        may be made twice."""
        clock = asyncio.get_running_loop().time
        give_up, pause = clock() + self._patience_s, _FIRST_PAUSE_S
        while True:
            try:
                return await self._calls.send(method, path, body)
            except DispatcherUnreachable as error:
                if clock() + pause > give_up:
                    raise DispatcherUnreachable(
                        error.message, hint="see `trace status`, and try again"
                    ) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
