"""What a stranger may send before anybody knows who it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from uvicorn.server import ServerState

from trace_platform.drivers import bounded_request
from trace_platform.drivers.bounded_request import MAX_HEAD_BYTES, BoundedRequest

pytestmark = pytest.mark.anyio
LINE = b"POST / HTTP/1.1\r\nhost: here\r\n"


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    state: ServerState

    async def says(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    def is_waited_for(self) -> bool:
        (connection,) = self.state.connections
        assert isinstance(connection, BoundedRequest)
        return connection._too_late is not None


async def _length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{len(await request.body())} bytes")


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    app = Starlette(routes=[Route("/", _length, methods=["POST"])])
    # Else it would set up logging for all tests that follow in this process.
    config = uvicorn.Config(app, log_config=None)
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: BoundedRequest(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            yield Client(reader, writer, state)
        finally:
            writer.close()


@pytest.mark.parametrize(
    "begun",
    [b"GET /", LINE, LINE + b"x-long: ", LINE + b"x-"],
    ids=["path", "headers", "value", "name"],
)
async def test_a_head_without_an_end_is_refused(begun: bytes) -> None:
    piece = b"n: v\r\n" if begun == LINE else b"aaaaaa"
    missing = MAX_HEAD_BYTES + 1 - len(begun)
    whole = begun + (piece * missing)[:missing]
    async with connected() as client:
        await client.says(*(whole[at : at + 1_000] for at in range(0, len(whole), 1_000)))
        assert (await client.reader.read()).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("begun", [b"", LINE], ids=["nothing", "half"])
async def test_a_head_that_does_not_end_in_time_is_refused(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(bounded_request, "HEAD_S", 0.01)
    async with connected() as client:
        await client.says(begun)
        assert (await client.reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_bodies_and_the_answers_time_count_for_nothing() -> None:
    """Two requests on one connection, each with a body that a head could not be."""
    body = b"x" * (3 * MAX_HEAD_BYTES)
    head = LINE + b"content-length: %d\r\n\r\n" % len(body)
    async with connected() as client:
        for _ in range(2):
            await client.says(head, body[:-1])
            await client.says(body[-1:])
            answer = await client.reader.readuntil(b" bytes")
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert str(len(body)).encode() in answer
            assert not client.is_waited_for()


async def test_the_next_head_on_a_connection_is_bounded_too() -> None:
    async with connected() as client:
        await client.says(LINE + b"content-length: 1\r\n\r\nx")
        await client.reader.readuntil(b" bytes")
        await client.says(LINE, b"n: v\r\n" * (MAX_HEAD_BYTES // 6))
        assert (await client.reader.read()).startswith(b"HTTP/1.1 431 ")
