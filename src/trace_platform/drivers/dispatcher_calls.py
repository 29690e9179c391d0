"""The Dispatcher over HTTPS, for processes of an instance: from threads, and from an event loop.

A call answers with the body of a success, and raises the error that the Dispatcher named, or
DispatcherUnreachable. A call that got no answer may have been carried out all the same.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel

from trace_platform.domain.errors import DispatcherUnreachable
from trace_platform.drivers.headers import SERVICE_TOKEN
from trace_platform.wire.refusal import DISPATCHER

_JSON = {"Content-Type": "application/json"}
_PASSING = frozenset({502, 503, 504})


class DispatcherCalls:
    """One kept-alive connection per thread: few calls, and each should cost little."""

    def __init__(
        self, url: str, ca: Path | None, headers: Mapping[str, str], *, timeout_s: float = 30
    ) -> None:
        self._url = urlsplit(url)
        self._tls = _trust(ca)
        self._headers = {**_JSON, **headers}
        self._timeout_s = timeout_s
        self._own = threading.local()
        self._all: list[http.client.HTTPConnection] = []

    def post(self, path: str, body: BaseModel, headers: Mapping[str, str] | None = None) -> bytes:
        return self._ask("POST", path, body, headers or {})

    def get(self, path: str) -> bytes:
        return self._ask("GET", path, None, {})

    def close(self) -> None:
        for connection in self._all:
            connection.close()

    def _ask(
        self, method: str, path: str, body: BaseModel | None, headers: Mapping[str, str]
    ) -> bytes:
        connection = self._connection()
        try:
            connection.request(method, path, _content(body), {**self._headers, **headers})
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _silent(error) from None
        if 200 <= response.status < 300:
            return answer
        raise DISPATCHER.error(response.status, answer)

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = self._new()
            self._all.append(found)
        elif found.sock is not None and _ended(found.sock):
            found.close()  # opened again by the next request
        return found

    def _new(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=self._timeout_s, context=self._tls
            )
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)


class AsyncDispatcherCalls:
    """As a service of the instance, with the service token."""

    def __init__(
        self, url: str, service_token: str, ca: Path | None, *, timeout_s: float = 10
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={SERVICE_TOKEN: service_token},
            verify=_trust(ca),
            timeout=httpx.Timeout(timeout_s, connect=2.0),
            limits=httpx.Limits(max_connections=32, keepalive_expiry=60.0),
            trust_env=False,  # internal calls never go through a proxy
        )

    async def send(self, method: str, path: str, body: BaseModel | None = None) -> bytes:
        try:
            response = await self._http.request(method, path, content=_content(body), headers=_JSON)
        except httpx.RequestError as error:
            raise _silent(error) from None
        if response.is_success:
            return response.content
        if response.status_code in _PASSING:
            raise DispatcherUnreachable(
                f"the dispatcher does not answer: it answered {response.status_code}"
            )
        raise DISPATCHER.error(response.status_code, response.content)

    async def close(self) -> None:
        await self._http.aclose()


def _trust(ca: Path | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def _content(body: BaseModel | None) -> bytes | None:
    return None if body is None else body.model_dump_json().encode()


def _silent(error: Exception) -> DispatcherUnreachable:
    reason = str(error) or type(error).__name__
    return DispatcherUnreachable(f"the dispatcher does not answer: {reason}")


def _ended(sock: socket.socket) -> bool:
    """Between two calls a server has nothing to say but good-bye."""
    return bool(select.select([sock], [], [], 0)[0])
