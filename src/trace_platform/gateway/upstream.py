"""The services behind, each with connections that are kept."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpcore

from trace_platform.domain.errors import Unavailable

Headers = Sequence[tuple[bytes, bytes]]

# Shorter than the services keep an idle connection: one is never used while it is closed there.
_KEEP_S = 3.0
_CONNECT_S = 5.0
_CONNECTIONS = 256


class TimedOut(Unavailable):
    """The service took too long."""


class Upstream:
    """`answer_s`: how long the service may say nothing, before its answer and within it."""

    def __init__(self, name: str, url: str, ca: Path, answer_s: float) -> None:
        self.name = name
        place = urlsplit(url)
        self._host = (place.hostname or "").encode()
        self._port = place.port
        self._answer_s = answer_s
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(cafile=ca),
            max_connections=_CONNECTIONS,
            keepalive_expiry=_KEEP_S,
        )

    @contextlib.asynccontextmanager
    async def request(
        self,
        method: str,
        target: bytes,
        headers: Headers,
        content: AsyncIterator[bytes] | None = None,
        answer_s: float | None = None,
    ) -> AsyncIterator[httpcore.Response]:
        """Raise Unavailable when the service does not answer, or breaks off."""
        wait_s = answer_s or self._answer_s
        limits = {"connect": _CONNECT_S, "read": wait_s, "write": wait_s, "pool": _CONNECT_S}
        with self._named():
            response = await self._pool.handle_async_request(
                httpcore.Request(
                    method,
                    httpcore.URL(scheme=b"https", host=self._host, port=self._port, target=target),
                    headers=[(b"host", self._host), *headers],
                    content=content,
                    extensions={"timeout": limits},
                )
            )
        try:
            with self._named():
                yield response
        finally:
            await response.aclose()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (httpcore.ReadTimeout, httpcore.WriteTimeout, httpcore.PoolTimeout):
            raise TimedOut(f"the {self.name} took too long", service=self.name) from None
        except (httpcore.ConnectTimeout, httpcore.NetworkError, httpcore.ProtocolError):
            raise Unavailable(
                f"the {self.name} does not answer", hint="try again", service=self.name
            ) from None

    async def close(self) -> None:
        await self._pool.aclose()
