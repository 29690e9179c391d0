"""Where events for others go: lines of a file, or requests to a URL."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from trace_platform.domain.errors import Unavailable
from trace_platform.domain.event_target import check_target

_JSON = {"Content-Type": "application/json"}
_TIMEOUT_S = 5.0
# What says that the same event sent again is refused again.
_REFUSED = frozenset({400, 413, 422})


class EventSink(Protocol):
    """At least once, in order."""

    async def send(self, events: Sequence[bytes]) -> int:
        """How many were taken or refused for good, from the first on; fewer than there are when
        the rest has to be tried again. Raise Unavailable when none was."""

    @property
    def refused(self) -> int:
        """How many were refused for good since this began."""

    async def close(self) -> None: ...


class FileSink:
    """A line for each event."""

    refused = 0

    def __init__(self, path: str) -> None:
        self._path = path

    async def send(self, events: Sequence[bytes]) -> int:
        try:
            await asyncio.to_thread(self._append, b"".join(event + b"\n" for event in events))
        except OSError as error:
            said = f"the file for lineage events cannot be written: {error.strerror}"
            raise Unavailable(said, hint="[lineage] openlineage names it") from None
        return len(events)

    async def close(self) -> None:
        return

    def _append(self, lines: bytes) -> None:
        # With one write each: several dispatchers may share the file.
        target = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while lines:
                lines = lines[os.write(target, lines) :]
        finally:
            os.close(target)


class HttpSink:
    """One request for each event: any 2xx accepts it."""

    def __init__(self, url: str, token: Callable[[], str | None] = lambda: None) -> None:
        """`token` is looked up for each request: it may be rotated."""
        self._url, self._token = url, token
        self._http = httpx.AsyncClient(
            follow_redirects=False,
            timeout=_TIMEOUT_S,
            trust_env=False,  # neither a proxy nor a .netrc of this machine is asked
        )
        self.refused = 0

    async def send(self, events: Sequence[bytes]) -> int:
        for n, event in enumerate(events):
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    status = await self._status_of(event)
            except (TimeoutError, httpx.HTTPError) as error:
                # By its type alone: its text may quote the address.
                said = f"who collects lineage cannot be reached: {type(error).__name__}"
                return _sent(n, said)
            if status in _REFUSED:
                self.refused += 1
            elif not 200 <= status < 300:
                return _sent(n, f"who collects lineage answered {status}")
        return len(events)

    async def close(self) -> None:
        await self._http.aclose()

    async def _status_of(self, event: bytes) -> int:
        # What else it says is not read: it may have no end, or stand for more than there is memory.
        async with self._http.stream(
            "POST", self._url, content=event, headers=self._headers()
        ) as answer:
            return answer.status_code

    def _headers(self) -> dict[str, str]:
        token = self._token()
        return _JSON if token is None else {**_JSON, "Authorization": f"Bearer {token}"}


def _sent(count: int, said: str) -> int:
    if count == 0:
        raise Unavailable(said, hint="[lineage] openlineage names it")
    return count


def open_sink(target: str, token: Callable[[], str | None]) -> EventSink:
    """`token` opens the URL, if that needs one."""
    parts = urlsplit(check_target(target))
    return FileSink(parts.path) if parts.scheme == "file" else HttpSink(target, token)
