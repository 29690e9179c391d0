"""A request goes on to the service that has it, and its answer comes back, both as they arrive.

What is passed on is listed, in both directions: neither a secret of the services nor a name that a
proxy before us made up comes in, and nothing but what a reader of the answer needs goes out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping

import httpcore
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from trace_platform.gateway.request_body import RequestBody, too_large
from trace_platform.gateway.routes import Found
from trace_platform.gateway.upstream import Upstream

MAX_BODY_BYTES = 32 * 2**20
_IN = (
    "accept",
    "content-length",
    "content-type",
    "if-match",
    "if-none-match",
    "user-agent",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
)
_OUT = frozenset(
    [
        b"cache-control",
        b"content-disposition",
        b"content-length",
        b"content-type",
        b"etag",
        b"retry-after",
    ]
)
_OUT_PREFIX = b"x-trace-"


class PassOn:
    def __init__(self, services: Mapping[str, Upstream]) -> None:
        self._services = services

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        found: Found,
        authorization: str | None,
        request_id: str,
    ) -> None:
        """Raise BodyTooLarge, or Unavailable when the service does not answer."""
        body = RequestBody(receive, MAX_BODY_BYTES)
        answer = asyncio.create_task(
            self._exchange(scope, body, send, found, authorization, request_id)
        )
        gone = asyncio.create_task(body.gone())
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                with contextlib.suppress(ConnectionResetError):
                    await answer
        finally:
            # Who went away wants nothing any more: the service sees the connection end.
            answer.cancel()
            gone.cancel()
            await asyncio.gather(answer, gone, return_exceptions=True)

    async def _exchange(
        self,
        scope: Scope,
        body: RequestBody,
        send: Send,
        found: Found,
        authorization: str | None,
        request_id: str,
    ) -> None:
        headers = Headers(scope=scope)
        if int(headers.get("content-length", "0")) > MAX_BODY_BYTES:
            raise too_large(MAX_BODY_BYTES)
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if not has_body:
            body.is_empty()
        query = scope["query_string"]
        async with self._services[found.route.service].request(
            scope["method"],
            found.path + (b"?" + query if query else b""),
            list(_passed_in(headers, authorization, request_id)),
            aiter(body) if has_body else None,
        ) as response:
            await _send_back(response, send)


def _passed_in(
    headers: Headers, authorization: str | None, request_id: str
) -> Iterator[tuple[bytes, bytes]]:
    for name in _IN:
        if name in headers:
            yield name.encode(), headers[name].encode("latin-1")
    yield b"x-request-id", request_id.encode()
    if "transfer-encoding" in headers and "content-length" not in headers:
        yield b"transfer-encoding", b"chunked"
    if authorization is not None:
        yield b"authorization", authorization.encode("latin-1")


async def _send_back(response: httpcore.Response, send: Send) -> None:
    kept = [
        (name.lower(), value)
        for name, value in response.headers
        if name.lower() in _OUT or name.lower().startswith(_OUT_PREFIX)
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": kept})
    async for part in response.aiter_stream():
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
