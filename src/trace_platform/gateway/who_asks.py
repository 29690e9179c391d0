"""Who a request is from, and whether its browser was sent here by another site."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.datastructures import Headers

from trace_platform.domain.errors import Forbidden, Unauthenticated
from trace_platform.gateway.sessions import Sessions

CSRF_HEADER = "X-Trace-CSRF"
_SAFE_METHODS = ("GET", "HEAD")
_OWN_SITE = ("same-origin", "none")
_HINT = "log in with a link of `trace login-link`, or send Authorization: Bearer TOKEN"


@dataclass(frozen=True, slots=True)
class Caller:
    """`authorization`: what the services behind are told. `still`: whether the caller would be let
    in now as well."""

    name: str
    authorization: str = field(repr=False)
    still: Callable[[], bool]
    # Whoever runs the instance: the dispatcher knows nobody else.
    is_owner: bool
    # Of a browser that has a session.
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Door:
    """How this gateway is called from outside."""

    scheme: str
    port: int
    names: Sequence[str]

    @property
    def secure(self) -> bool:
        return self.scheme == "https"

    @property
    def cookie(self) -> str:
        # Cookies are of a host, whatever the port: two instances have two names.
        return "__Host-trace_session" if self.secure else f"trace_session_{self.port}"

    def hosts(self) -> frozenset[str]:
        """What a request may call it. Any other name was pointed here by somebody else."""
        default = {"https": 443, "http": 80}[self.scheme]
        bare = self.names if self.port == default else ()
        return frozenset([*(f"{name}:{self.port}" for name in self.names), *bare])


class Callers:
    def __init__(
        self,
        door: Door,
        sessions: Sessions,
        find_user: Callable[[str], Any],
        owner_token: str,
    ) -> None:
        self._door = door
        self._sessions = sessions
        self._find_user = find_user
        self._owner = f"Bearer {owner_token}"

    def find(self, method: str, headers: Headers, *, by_link: bool = False) -> Caller:
        """Raise Unauthenticated, or Forbidden for what another site has sent. `by_link`: the
        browser itself asks, which sends no header of a page."""
        given = headers.get("authorization")
        if given is not None:
            return self._of_token(given)
        token = self.session_token(headers)
        session = self._sessions.find(token) if token else None
        if session is None or token is None:
            raise Unauthenticated("there is no session, or it is over", hint=_HINT)
        refuse_other_sites(self._door, method, headers)
        if not by_link and not session.has_key(headers.get(CSRF_HEADER, "")):
            raise Unauthenticated(f"{CSRF_HEADER} is not the key of the session", hint=_HINT)
        return Caller(
            session.user,
            self._owner,
            lambda: self._sessions.find(token) is not None,
            is_owner=True,
            session_token=token,
        )

    def session_token(self, headers: Headers) -> str | None:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._door.cookie)
        except CookieError:
            return None
        return found.value if found else None

    def _of_token(self, given: str) -> Caller:
        scheme, _, token = given.partition(" ")
        user = self._find_user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise Unauthenticated("Authorization is not the token of a user", hint=_HINT)
        token = token.strip()
        return Caller(
            user.name,
            given,
            lambda: self._find_user(token) is not None,
            is_owner=hmac.compare_digest(f"Bearer {token}".encode(), self._owner.encode()),
        )


def refuse_other_sites(door: Door, method: str, headers: Headers) -> None:
    """A browser sends the cookie with whatever a page of the same host asks for, on any port."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in _OWN_SITE:
        raise Forbidden("this was sent by another site", hint="open the console itself")
    if method in _SAFE_METHODS:
        return
    origin = headers.get("origin")
    if origin is not None and origin != f"{door.scheme}://{headers.get('host')}":
        raise Forbidden("this was sent by another site", hint="open the console itself")
    if not headers.get(CSRF_HEADER):
        raise Forbidden(f"the header {CSRF_HEADER} is missing", hint="send the key of the session")
