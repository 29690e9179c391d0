"""Every request comes in here: is it meant for us, whose is it, where does it go.

In this order: the host that it names, then the list of operations, then its sender, then how much
that one has asked; only then is anything of its body read.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import unquote
from uuid import uuid4

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trace_platform.domain.errors import BadInput, Forbidden, NotFound, TraceError
from trace_platform.drivers.problem import problem, status_of
from trace_platform.gateway.console_files import ConsoleFiles
from trace_platform.gateway.limits import AtOnce, OldestGivesWay, Rate
from trace_platform.gateway.own_routes import OWN
from trace_platform.gateway.pass_on import PassOn
from trace_platform.gateway.request_body import BodyTooLarge
from trace_platform.gateway.routes import Found, RouteTable
from trace_platform.gateway.security_headers import telling
from trace_platform.gateway.upstream import TimedOut
from trace_platform.gateway.who_asks import Callers, Door

log = structlog.get_logger(__name__)

# What belongs to the API, whether there is such an operation or not.
_API = ("/v1", "/internal", "/metrics", "/pools")
# What a browser opens by itself. Its name has 122 bits, and is told to the caller alone.
_DOWNLOAD = "/v1/exports/{}"
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# A reader that takes nothing of an answer for so long is gone.
_SEND_S = 60.0


class WrongHost(Forbidden):
    """A name that somebody else pointed at this machine."""


class WrongMethod(BadInput):
    """The path is there, and this cannot be done with it."""


_STATUS: dict[type[TraceError], int] = {
    BodyTooLarge: 413,
    TimedOut: 504,
    WrongHost: 421,
    WrongMethod: 405,
}


@dataclass(frozen=True, slots=True)
class Limits:
    rate: Rate
    at_once: AtOnce
    unproven: OldestGivesWay


class Front:
    def __init__(
        self,
        door: Door,
        callers: Callers,
        routes: RouteTable,
        own: ASGIApp,
        files: ConsoleFiles,
        pass_on: PassOn,
        limits: Limits,
    ) -> None:
        self._hosts = door.hosts()
        self._secure = door.secure
        self._callers = callers
        self._routes = routes
        self._own = own
        self._files = files
        self._pass_on = pass_on
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._own(scope, receive, send)  # its start and its end
            return
        headers = Headers(scope=scope)
        request_id = _request_id(headers)
        started = _Started(telling(send, request_id, secure=self._secure))
        try:
            await self._answer(scope, headers, receive, started, request_id)
        except TraceError as error:
            if started.has_begun:
                raise  # half an answer is cut off, so that nobody takes it for a whole one
            status = _status(error)
            if status >= 500:
                log.warning(
                    "refused", request=request_id, status=status, code=error.code, why=error.message
                )
            await problem(error, status)(scope, receive, started)

    async def _answer(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send, request_id: str
    ) -> None:
        if headers.get("host") not in self._hosts:
            raise WrongHost(
                "this host is none of the gateway's",
                hint="open the address that `trace login-link` prints, or list it: [gateway] hosts",
            )
        path = scope["raw_path"].decode("latin-1")
        if path in OWN:
            await self._own(scope, receive, send)
            return
        found = self._find(scope["method"], path)
        if found is not None:
            async with self._admitted(scope, headers, found) as authorization:
                await self._pass_on(
                    *(scope, receive, send),
                    found=found,
                    authorization=authorization,
                    request_id=request_id,
                )
            return
        await self._file(scope, headers, path, receive, send)

    def _find(self, method: str, path: str) -> Found | None:
        """Raise NotFound for what is no operation of the API, nor a file's name."""
        known = self._routes.methods(path)
        if known is None:
            if _is_of_the_api(path):
                raise NotFound("there is no such path", hint="GET /openapi.json lists all of them")
            return None
        routes, parameters = known
        route = routes.get(method)
        if route is None:
            raise WrongMethod(f"this path takes {', '.join(sorted(routes))}")
        return Found(route, parameters)

    @contextlib.asynccontextmanager
    async def _admitted(
        self, scope: Scope, headers: Headers, found: Found
    ) -> AsyncIterator[str | None]:
        """What the service behind is told of the caller."""
        if found.route.signed:
            self._limits.rate.take(f"from {(scope['client'] or ('',))[0]} to {found.path!r}")
            async with self._limits.unproven.one():
                yield None
            return
        by_link = found.route.target == _DOWNLOAD
        caller = self._callers.find(scope["method"], headers, by_link=by_link)
        self._limits.rate.take(caller.name)
        with self._limits.at_once.one(caller.name):
            yield caller.authorization

    async def _file(
        self, scope: Scope, headers: Headers, path: str, receive: Receive, send: Send
    ) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise WrongMethod("this path takes GET, HEAD")
        response = self._files.answer(path, headers)
        if response is None:
            raise NotFound("there is no such file")
        if scope["method"] == "HEAD":
            response.body = b""
        await response(scope, receive, send)


class _Started:
    """Sends on, within a time, and knows whether the answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        self.has_begun = True
        async with asyncio.timeout(_SEND_S):
            await self._send(message)


def _is_of_the_api(path: str) -> bool:
    """In whatever way it is written: none of these is answered with a page."""
    meant = posixpath.normpath("/" + unquote(path).replace("\\", "/").lstrip("/"))
    return any(meant == each or re.match(re.escape(each) + r"\W", meant) for each in _API)


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else str(uuid4())


def _status(error: TraceError) -> int:
    return next(
        (each for kind, each in _STATUS.items() if isinstance(error, kind)), status_of(error)
    )
