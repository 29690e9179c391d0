"""HTTP/1.1 to one provider: POST a body, get the answer in pieces as they arrive.

A protocol of its own because bodies are large and pass through: a general client costs more per
byte than everything else here. No redirect is followed, no proxy is asked, no cookie is kept.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import cast
from urllib.parse import SplitResult

import httptools

from trace_platform.drivers.node_url import login, port_of, reason, target
from trace_platform.rpc.faults import ProviderFailed

_CONNECT_S = 5.0
# A connection that was idle for longer is not used again: many nodes hang up silently.
_IDLE_S = 25.0
_READ_AHEAD_BYTES = 1 << 20
_MAX_HEADER_BYTES = 64 << 10


class HungUp(Exception):
    """The connection ended before the answer did."""


class Wire(asyncio.Protocol):
    """One connection, one question at a time."""

    def __init__(self) -> None:
        self.closed = False
        self.idle_since = 0.0
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.complete = False
        self.reusable = False
        self._transport: asyncio.Transport | None = None
        self._chunks: deque[bytes] = deque()
        self._ahead = 0
        self._paused = False
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._header_bytes = 0
        self._has_headers = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if not self.complete and self._has_headers and not self._framed():
            self.complete = True  # the end of the connection is the end of such a body
        elif not self.complete and self._failure is None:
            self._failure = HungUp()
        self._wake()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail(ProviderFailed("did not answer in HTTP", code="not_http"))
        self._wake()

    def send(self, question: bytes) -> None:
        """Forget the answer before, and ask."""
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.headers, self.complete, self._has_headers = 0, {}, False, False
        self._chunks.clear()
        self._ahead = self._header_bytes = 0
        self._failure = None
        assert self._transport is not None
        self._transport.write(question)

    async def head(self) -> None:
        """Wait for status and headers."""
        while not self._has_headers:
            await self._wait()

    async def chunk(self) -> bytes:
        """The next piece of the body; b"" at its end."""
        while not self._chunks:
            if self.complete:
                return b""
            await self._wait()
        data = self._chunks.popleft()
        self._ahead -= len(data)
        if self._paused and self._ahead < _READ_AHEAD_BYTES // 2:
            self._paused = False
            if self._transport is not None and not self.closed:
                self._transport.resume_reading()
        return data

    def close(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > _MAX_HEADER_BYTES:
            self._fail(ProviderFailed("answers with endless headers", code="not_http"))
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._has_headers = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)
        self._ahead += len(body)
        if self._ahead > _READ_AHEAD_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._has_headers:  # else it was a 100 Continue
            self.complete = True
            self.reusable = self._framed() and self._parser.should_keep_alive()

    def _framed(self) -> bool:
        return b"content-length" in self.headers or b"transfer-encoding" in self.headers

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, failure: Exception) -> None:
        self._failure = failure
        self.close()


class Answer:
    """A provider's answer under way. `close` it, whatever happens."""

    def __init__(self, wire: Wire, give_back: Callable[[Wire], None], timeout_s: float) -> None:
        self._wire = wire
        self._give_back = give_back
        self._timeout_s = timeout_s
        self._then: Callable[[], None] | None = None
        self._ended = False

    @property
    def status(self) -> int:
        return self._wire.status

    def header(self, name: bytes) -> str | None:
        value = self._wire.headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def length(self) -> int | None:
        given = self._wire.headers.get(b"content-length", b"")
        return int(given) if given.isdigit() else None

    async def chunk(self) -> bytes:
        """b"" at the end; ProviderFailed when it breaks off or stalls."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._wire.chunk()
        except TimeoutError:
            raise _silent(self._timeout_s) from None
        except HungUp:
            raise ProviderFailed("broke off in the middle of its answer", code="cut") from None

    def at_end(self, then: Callable[[], None]) -> None:
        self._then = then

    def close(self) -> None:
        """Does nothing a second time. What was not read is dropped, with the connection."""
        if self._ended:
            return
        self._ended = True
        self._give_back(self._wire)
        if self._then is not None:
            self._then()


class Upstream:
    """Connections to one URL, kept open between questions."""

    def __init__(self, url: SplitResult, *, bearer: str | None = None, timeout_s: float) -> None:
        self._host = url.hostname or ""
        self._port = port_of(url)
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        self._idle: list[Wire] = []
        host = f"[{self._host}]" if ":" in self._host else self._host
        authorization = f"Bearer {bearer}" if bearer else login(url)
        lines = [
            f"POST {target(url)} HTTP/1.1",
            f"host: {host}:{self._port}" if url.port else f"host: {host}",
            "content-type: application/json",
            "accept: application/json",
            "user-agent: trace",
        ]
        if authorization:
            lines.append(f"authorization: {authorization}")
        self._head = "".join(f"{line}\r\n" for line in lines).encode("latin-1")
        # On loopback and private networks unpacking costs more than the bytes it saves.
        self.packs = self._tls is not None

    async def post(self, body: bytes, *, packed: bool = False) -> Answer:
        """Status and headers are there when this returns. Raise ProviderFailed."""
        encoding = b"accept-encoding: gzip\r\n" if packed and self.packs else b""
        question = b"%s%scontent-length: %d\r\n\r\n%s" % (self._head, encoding, len(body), body)
        while True:
            wire, was_open = await self._borrow()
            try:
                wire.send(question)
                async with asyncio.timeout(self._timeout_s):
                    await wire.head()
            except TimeoutError:
                wire.close()
                raise _silent(self._timeout_s) from None
            except HungUp:
                wire.close()
                if was_open:
                    continue  # it idled too long and the node hung up: ask on a new one
                raise ProviderFailed("hung up without an answer", code="cut") from None
            except BaseException:
                wire.close()
                raise
            return Answer(wire, self._take_back, self._timeout_s)

    def close(self) -> None:
        for wire in self._idle:
            wire.close()
        self._idle.clear()

    async def _borrow(self) -> tuple[Wire, bool]:
        now = asyncio.get_running_loop().time()
        while self._idle:
            wire = self._idle.pop()
            if not wire.closed and now - wire.idle_since < _IDLE_S:
                return wire, True
            wire.close()
        return await self._connect(), False

    async def _connect(self) -> Wire:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, wire = await loop.create_connection(
                    Wire,
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )
        except TimeoutError:
            raise ProviderFailed(
                f"did not take a connection within {_CONNECT_S:g} s", code="connect"
            ) from None
        except OSError as error:
            why = error.errno and error.strerror
            # uvloop and ssl put addresses and long words into their texts.
            said = _short(why) if why else reason(error)
            raise ProviderFailed(f"is unreachable ({said})", code="connect") from None
        return wire

    def _take_back(self, wire: Wire) -> None:
        if wire.complete and wire.reusable and not wire.closed:
            wire.idle_since = asyncio.get_running_loop().time()
            self._idle.append(wire)
        else:
            with suppress(Exception):
                wire.close()


def _silent(timeout_s: float) -> ProviderFailed:
    return ProviderFailed(f"did not answer within {timeout_s:g} s", code="timeout")


def _short(text: str) -> str:
    """Only the words of the system: `[Errno 111] Connect call failed ('…', 80)` says where to."""
    return "Connection refused" if "Connect call failed" in text else text.partition(" (")[0][:80]
