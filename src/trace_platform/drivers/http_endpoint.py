"""An HTTP endpoint of somebody else's: asked with GET or POST, bounded and patient.

The secret is for the host that the job names. Errors name an address without its query, and repeat
what a server says without the secret.
"""

from __future__ import annotations

import base64
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus, urljoin, urlsplit

import httpx

from trace_platform.domain.address_reach import Reach, reach_of
from trace_platform.domain.errors import EndpointRefused, EndpointUnreachable
from trace_platform.domain.figures import duration, size
from trace_platform.domain.private_url import is_private
from trace_platform.drivers.node_url import reason, retry_after_s, scrubbed
from trace_platform.drivers.unpack_body import DamagedBody, unpack_body

_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 522, 524})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5
_BACKOFF_S = (0.5, 1.5, 4.5)
# An endpoint that wants to be left alone for longer is left to the next attempt.
_PATIENCE_S = 60.0
_REFUSAL_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class Credential:
    """What opens the endpoint: a header or a parameter of the query."""

    name: str
    value: str = field(repr=False)
    in_query: bool = False

    @property
    def spellings(self) -> list[str]:
        """All ways in which it may be repeated, the longest first."""
        plain = self.value.partition(" ")[2] or self.value
        found = {self.value, plain}
        if self.value.startswith("Basic "):
            pair = base64.b64decode(plain).decode()
            found |= {pair, pair.partition(":")[2]}
        found |= {spelled(each) for each in found for spelled in (quote_plus, _quoted)}
        return sorted(filter(None, found), key=len, reverse=True)


@dataclass(frozen=True, slots=True)
class Manners:
    """How an endpoint is asked."""

    timeout_s: float = 30.0
    requests_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Validators:
    """By which a server tells that an answer is still the same."""

    etag: str | None = None
    last_modified: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        told = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in told.items() if value}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """GET, or POST of a document of JSON."""

    url: str
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    url: str
    body: bytes
    validators: Validators
    # Of the header Link: where the next page is, as it is said there.
    next_url: str | None


class _Again(Exception):
    def __init__(self, what: str, retry_after_s: float = 0.0) -> None:
        super().__init__(what)
        self.what = what
        self.retry_after_s = retry_after_s


class HttpEndpoint:
    """`with` it. `pause` waits, and ends the wait when the work is to stop; `check` raises then."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        credential: Credential | None,
        manners: Manners,
        pause: Callable[[float], None],
        check: Callable[[], None],
    ) -> None:
        self._home = _origin(url)
        self._headers = dict(headers)
        self._credential = credential
        self._manners = manners
        self._pause = pause
        self._check = check
        self._next_at = 0.0
        self._http = httpx.Client(
            follow_redirects=False,
            timeout=manners.timeout_s,
            trust_env=False,  # neither a proxy nor a .netrc of this machine is asked
            verify=ssl.create_default_context(),
            headers={"Accept-Encoding": "gzip", "User-Agent": "trace-platform"},
        )

    def __enter__(self) -> HttpEndpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def shown(self, url: str) -> str:
        """What errors call it: no query, and no secret."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
        return self.scrub(f"{parts.scheme}://{host}{port}{parts.path}")

    def scrub(self, text: str) -> str:
        return scrubbed(text, self._credential.spellings if self._credential else ())

    def holds_secret(self, url: str) -> bool:
        spellings = self._credential.spellings if self._credential else ()
        return any(each in url for each in spellings)

    def without_credential(self, url: str) -> str:
        """A link that a server gives may repeat the parameter of the query that we sent."""
        if self._credential is None or not self._credential.in_query:
            return url
        head, mark, query = url.partition("?")
        name = quote_plus(self._credential.name)
        kept = [part for part in query.split("&") if part.partition("=")[0] != name]
        return head + mark + "&".join(kept) if any(kept) else head

    def ask(
        self, request: HttpRequest, max_bytes: int, known: Validators | None = None
    ) -> HttpAnswer | None:
        """None: it is as it was when it had these validators. Raise EndpointUnreachable when
        another attempt may help, else EndpointRefused."""
        waited_s = 0.0
        for pause_s in (*_BACKOFF_S, None):
            self._await_turn()
            try:
                return self._followed(request, max_bytes, known or Validators())
            except _Again as again:
                wait_s = max(again.retry_after_s, pause_s or 0.0)
                if pause_s is None or waited_s + wait_s > _PATIENCE_S:
                    raise self._unreachable(request.url, again) from None
                waited_s += wait_s
                self._pause(wait_s)
        raise AssertionError("the last try raises")

    def _await_turn(self) -> None:
        self._check()
        rate = self._manners.requests_per_second
        if rate is None:
            return
        wait_s = self._next_at - time.monotonic()
        if wait_s > 0:
            self._pause(wait_s)
        self._next_at = time.monotonic() + 1 / rate

    def _followed(
        self, request: HttpRequest, max_bytes: int, known: Validators
    ) -> HttpAnswer | None:
        at = request
        for _ in range(_MOST_REDIRECTS + 1):
            found = self._one(at, max_bytes, known)
            if not isinstance(found, str):
                return found
            if at.body is not None:
                raise EndpointRefused(
                    f"{self.shown(at.url)} redirects, and what is posted is posted to no other",
                    hint="give the address that it leads to",
                )
            at = HttpRequest(self.led_to(at.url, found))
        raise EndpointRefused(
            f"{self.shown(request.url)} redirects more than {_MOST_REDIRECTS} times",
            hint="ask for the address that it leads to",
        )

    def _one(
        self, request: HttpRequest, max_bytes: int, known: Validators
    ) -> HttpAnswer | str | None:
        """The answer, None when it is still the same, or where it redirects to."""
        url = request.url
        try:
            with self._sent(request, known) as response:
                status = response.status_code
                if status == 304 and known.headers:
                    return None
                if status in _REDIRECTS and "location" in response.headers:
                    return str(response.headers["location"])
                if status != 200:
                    self._refuse(url, response)
                body = self._body(url, response, max_bytes)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            # By its kind alone: its text may quote the address.
            raise _Again(f"does not answer: {_why(error)}") from None
        except DamagedBody as error:
            raise _Again(str(error)) from None
        return HttpAnswer(url, body, _validators(response), _next_link(response))

    def _sent(
        self, request: HttpRequest, known: Validators
    ) -> AbstractContextManager[httpx.Response]:
        asked, headers = self._dressed(request.url)
        asked, headers, name = self._pinned(asked, headers)
        if request.body is None:
            headers = headers | known.headers
            return self._http.stream("GET", asked, headers=headers, extensions=name)
        typed = {"Content-Type": "application/json", **headers}
        body = request.body
        return self._http.stream("POST", asked, headers=typed, extensions=name, content=body)

    def _dressed(self, url: str) -> tuple[str, dict[str, str]]:
        """Headers and the secret are for the host that the job names. Whoever it sends us on to
        gets neither."""
        if _origin(url) != self._home:
            return url, {}
        given = self._credential
        if given is None:
            return url, self._headers
        if not given.in_query:
            return url, self._headers | {given.name: given.value}
        mark = "&" if "?" in url else "?"
        return f"{url}{mark}{quote_plus(given.name)}={quote_plus(given.value)}", self._headers

    def _pinned(
        self, url: str, headers: dict[str, str]
    ) -> tuple[str, dict[str, str], dict[str, str]]:
        """Elsewhere than at home, the address that was looked at is the one that is asked, whatever
        the name leads to a moment later."""
        scheme, host, port = _origin(url)
        if (scheme, host, port) == self._home:
            return url, headers, {}
        name = host.strip("[]")
        address = self._address(url, name, port)
        place = f"[{address}]" if ":" in address else address
        asked = urlsplit(url)._replace(netloc=f"{place}:{port}").geturl()
        return asked, headers | {"Host": f"{host}:{port}"}, {"sni_hostname": name}

    def _address(self, url: str, name: str, port: int) -> str:
        found = _addresses(name, port)
        if min(map(reach_of, found)) < self._reach_of_home():
            raise EndpointRefused(
                f"the endpoint leads into this machine or its network, to {self.shown(url)}",
                hint="if it is right, give the address that it leads to",
            )
        return found[0]

    def _reach_of_home(self) -> Reach:
        try:
            return min(map(reach_of, _addresses(self._home[1].strip("[]"), self._home[2])))
        except OSError:
            return Reach.PUBLIC

    def _body(self, url: str, response: httpx.Response, max_bytes: int) -> bytes:
        body = bytearray()
        for chunk in _unpacked(response):
            self._check()
            body += chunk
            if len(body) > max_bytes:
                raise EndpointRefused(
                    f"{self.shown(url)} answers with more than is taken: there was room for "
                    f"{size(max_bytes)}",
                    hint="raise max_mb, or ask for less",
                )
        return bytes(body)

    def _refuse(self, url: str, response: httpx.Response) -> None:
        status = response.status_code
        if status in _TRANSIENT:
            said = "wants to be asked less often" if status == 429 else "has trouble"
            wait_s = retry_after_s(response.headers.get("retry-after"))
            raise _Again(f"answers {status}: it {said}", wait_s)
        raise EndpointRefused(
            f"{self.shown(url)} answers {status}{self._said(response)}",
            hint="is the secret right, and may it read this?"
            if status in (401, 403)
            else "open the address with curl: is it still the right one?",
        )

    def _said(self, response: httpx.Response) -> str:
        body = bytearray()
        for chunk in _unpacked(response):
            body += chunk
            if len(body) > _REFUSAL_BYTES:
                break
        text = self.scrub(body.decode(errors="replace"))
        return f": {text}" if text.strip() else ""

    def led_to(self, url: str, link: str) -> str:
        """Where a link of an answer leads, without our secret in it."""
        try:
            found = self.without_credential(urljoin(url, link))
        except ValueError:
            found = link
        self.refuse_unsafe(found)
        return found

    def refuse_unsafe(self, url: str) -> None:
        """Of an address that a server gave: it may not lead to where others read along. Whether it
        leads into this machine or its network is seen when it is looked up to be asked."""
        if not _is_address(url):
            raise EndpointRefused("the endpoint leads to something which is no address of HTTP")
        if _origin(url) == self._home:
            return
        if not is_private(url):
            raise EndpointRefused(
                f"the endpoint leads to {self.shown(url)}, where others can read along",
                hint="give the address that it leads to, with https://",
            )

    def _unreachable(self, url: str, again: _Again) -> EndpointUnreachable:
        wait_s = again.retry_after_s
        after = f"; it asks for {duration(wait_s)} of peace" if wait_s else ""
        return EndpointUnreachable(
            f"{self.shown(url)} {again.what}{after}",
            hint="the rows of before are read until it answers again",
            retry_after_s=wait_s or None,
        )


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _host(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme.lower(), _host(url), port


def _unpacked(response: httpx.Response) -> Iterator[bytes]:
    return unpack_body(response.iter_raw(), response.headers.get("content-encoding", ""))


def _validators(response: httpx.Response) -> Validators:
    told = response.headers
    return Validators(told.get("etag"), told.get("last-modified"))


def _next_link(response: httpx.Response) -> str | None:
    return response.links.get("next", {}).get("url")


def _addresses(name: str, port: int) -> list[str]:
    """Raise OSError for a name that leads nowhere."""
    return [str(each[4][0]) for each in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


def _why(error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return reason(cause)
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
