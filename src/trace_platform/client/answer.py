"""One answer of the query service, read piece by piece, and its errors by their names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

import httpcore

from trace_platform.client.patience import Deadline
from trace_platform.client.place import Place
from trace_platform.domain.errors import TraceError, Unavailable
from trace_platform.wire.refusal import QUERY_SERVICE

_BUSY = (429, 503)


class Sink(Protocol):
    """Where bytes go."""

    def write(self, data: bytes, /) -> object: ...


class Answer:
    def __init__(self, response: httpcore.Response, place: Place, deadline: Deadline) -> None:
        self._response, self._place, self._deadline = response, place, deadline
        self._headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.headers
        }

    @property
    def retry_after_s(self) -> float | None:
        """When to ask again; None when the service does not say that it would help."""
        if self._response.status not in _BUSY:
            return None
        try:
            return max(0.0, float(self._headers.get("retry-after", "")))
        except ValueError:
            return None

    def header(self, name: str, otherwise: str | None = None) -> str:
        found = self._headers.get(name.lower(), otherwise)
        if found is None:
            raise Unavailable(
                f"the answer has no {name}: this is not Trace's query service",
                hint="check the URL",
            )
        return found

    def error(self) -> TraceError | None:
        """What the service named; None when it answered what was asked."""
        if 200 <= self._response.status < 300:
            return None
        return QUERY_SERVICE.error(self._response.status, self.read())

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def save(self, sink: Sink) -> None:
        for chunk in self.chunks():
            sink.write(chunk)

    def chunks(self) -> Iterator[bytes]:
        """Whoever reads all of them leaves the connection for the next request."""
        with named_errors(self._place, self._deadline, "the rest of the answer"):
            yield from self._response.iter_stream()


@contextlib.contextmanager
def named_errors(place: Place, deadline: Deadline, awaited: str) -> Iterator[None]:
    """What goes wrong on the way, as one of Trace's errors."""
    try:
        yield
    except httpcore.ConnectError as error:
        if "CERTIFICATE" in str(error):
            raise Unavailable(
                f"the certificate of {place.url} is not trusted",
                hint="give `ca` the instance's tls/ca.pem",
            ) from None
        raise place.silent() from None
    except httpcore.ConnectTimeout:
        raise Unavailable(
            f"no connection to {place.url} after {deadline.waited}",
            hint="check the URL; see `trace status`",
        ) from None
    except httpcore.TimeoutException:
        if deadline.is_given:
            raise deadline.passed(awaited) from None
        raise Unavailable(
            f"{place.url} fell silent: {deadline.waited}, waiting for {awaited}",
            hint="see `trace status`",
        ) from None
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise Unavailable(
            f"the query service broke off: {str(error) or type(error).__name__}",
            hint="see `trace status`, and try again",
        ) from None
