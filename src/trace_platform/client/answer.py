"""One answer of the query service, read piece by piece, and its errors by their names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

import httpx

from trace_platform.client.patience import Deadline
from trace_platform.domain.errors import TraceError, Unavailable
from trace_platform.wire.refusal import QUERY_SERVICE

_BUSY = (429, 503)


class Sink(Protocol):
    """Where bytes go."""

    def write(self, data: bytes, /) -> object: ...


class Answer:
    def __init__(self, response: httpx.Response, deadline: Deadline) -> None:
        self._response, self._deadline = response, deadline

    @property
    def retry_after_s(self) -> float | None:
        """When to ask again; None when the service does not say that it would help."""
        said = self._response.headers.get("Retry-After", "")
        if self._response.status_code not in _BUSY:
            return None
        try:
            return max(0.0, float(said))
        except ValueError:
            return None

    def header(self, name: str, otherwise: str | None = None) -> str:
        found = self._response.headers.get(name, otherwise)
        if found is None:
            raise Unavailable(
                f"the answer has no {name}: this is not Trace's query service",
                hint="check the URL",
            )
        return str(found)

    def error(self) -> TraceError | None:
        """What the service named; None when it answered what was asked."""
        if self._response.is_success:
            return None
        return QUERY_SERVICE.error(self._response.status_code, self.read())

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def save(self, sink: Sink) -> None:
        for chunk in self.chunks():
            sink.write(chunk)

    def chunks(self) -> Iterator[bytes]:
        with named_errors(self._response.url, self._deadline):
            for chunk in self._response.iter_bytes():
                yield chunk
                self._deadline.left_s()


@contextlib.contextmanager
def named_errors(url: httpx.URL, deadline: Deadline) -> Iterator[None]:
    """What goes wrong on the way, as one of Trace's errors."""
    place = f"{url.scheme}://{url.netloc.decode()}"
    try:
        yield
    except httpx.ConnectError as error:
        if "CERTIFICATE" in str(error):
            raise Unavailable(
                f"the certificate of {place} is not trusted",
                hint="give `ca` the instance's tls/ca.pem",
            ) from None
        raise Unavailable(
            f"nothing answers at {place}: the instance is not running",
            hint="start it with `trace up`",
        ) from None
    except httpx.TimeoutException:
        if deadline.is_given:
            raise deadline.passed() from None
        raise Unavailable(f"{place} does not answer", hint="see `trace status`") from None
    except (httpx.TransportError, httpx.DecodingError) as error:
        raise Unavailable(
            f"the query service broke off: {str(error) or type(error).__name__}",
            hint="see `trace status`, and try again",
        ) from None
