"""What the gateway answers by itself: sessions, its description, live events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from trace_platform.domain.errors import Forbidden, Unauthenticated
from trace_platform.drivers import openapi, problem
from trace_platform.drivers.authenticate import CALLER, OPEN, Guard, guard_routes
from trace_platform.drivers.openapi import documented
from trace_platform.gateway.limits import Rate
from trace_platform.gateway.live import MEDIA, Live
from trace_platform.gateway.routes import description
from trace_platform.gateway.sessions import Session, Sessions
from trace_platform.gateway.who_asks import Caller, Callers, Door, refuse_other_sites
from trace_platform.wire.control import Alive
from trace_platform.wire.login import LoggedIn, Login

# Of everybody. A code has 256 bits, so this is about work and not about luck: the right one is
# taken however many wrong ones others send.
_WRONG_CODES_PER_S, _WRONG_CODES_AT_ONCE = 2.0, 20.0
_EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True)
class Inside:
    """What those routes need."""

    door: Door
    sessions: Sessions
    callers: Callers
    live: Live


def create_app(inside: Inside) -> FastAPI:
    app = FastAPI(title="Trace", docs_url=None, redoc_url=None, openapi_url=None)
    problem.install(app)
    openapi.install(app)
    guard_routes(app)
    _services(app)
    _sessions(app, inside)
    _live(app, inside)
    return app


# Their paths, which no service has.
OWN = frozenset(["/healthz", "/openapi.json", "/v1/session", "/v1/live"])


def _services(app: FastAPI) -> None:
    @app.get(
        "/healthz",
        summary="Whether it answers",
        dependencies=[OPEN],
        **documented("services", None),
    )
    async def healthz() -> Alive:
        return Alive()

    @app.get("/openapi.json", include_in_schema=False, dependencies=[OPEN])
    async def described() -> Response:
        return Response(description(), media_type="application/json")


def _sessions(app: FastAPI, inside: Inside) -> None:
    wrong_codes = Rate(_WRONG_CODES_PER_S, _WRONG_CODES_AT_ONCE)

    async def from_here(request: Request) -> None:
        """Whoever it is: from a page of ours, or from no page."""
        refuse_other_sites(inside.door, request.method, request.headers)

    here = Guard(check=from_here)
    user = _user(inside)

    @app.post(
        "/v1/session",
        summary="Log in with the code of a login link",
        dependencies=[here],
        **documented("session", None, 401, 403, 429),
    )
    async def log_in(body: Login, response: Response) -> LoggedIn:
        """The code is used up. The answer sets the cookie."""
        opened = inside.sessions.open(body.code)
        if opened is None:
            wrong_codes.take(_EVERYBODY)
            raise Unauthenticated(
                "this login link is not known, was used, or is too old",
                hint="`trace login-link` prints another",
            )
        response.set_cookie(
            inside.door.cookie,
            opened.token,
            expires=opened.session.expires_at,
            path="/",
            secure=inside.door.secure,
            httponly=True,
            samesite="strict",
        )
        return _told(opened.session, opened.key)

    @app.get(
        "/v1/session",
        summary="Who is logged in",
        dependencies=[user],
        **documented("session", "user", 403),
    )
    async def session(request: Request, caller: Caller = CALLER) -> LoggedIn:
        found = inside.sessions.find(caller.session_token) if caller.session_token else None
        return _told(found) if found else LoggedIn(user=caller.name, expires_at=None, key=None)

    @app.delete(
        "/v1/session",
        summary="Log out",
        dependencies=[user],
        status_code=204,
        **documented("session", "user", 403),
    )
    async def log_out(response: Response, caller: Caller = CALLER) -> None:
        """The session opens nothing from now on. A token stays as it is."""
        if caller.session_token:
            inside.sessions.close(caller.session_token)
        response.delete_cookie(
            inside.door.cookie,
            path="/",
            secure=inside.door.secure,
            httponly=True,
            samesite="strict",
        )


def _live(app: FastAPI, inside: Inside) -> None:
    described = documented("live", "user", 403, 429)
    described["responses"][200] = {"description": "Server-sent events.", "content": {MEDIA: {}}}

    @app.get(
        "/v1/live",
        summary="What changes, as server-sent events",
        dependencies=[_user(inside)],
        response_class=StreamingResponse,
        **described,
    )
    async def live(request: Request, caller: Caller = CALLER) -> StreamingResponse:
        """Events `change`, `resync` and `expired`; a stream that was cut goes on behind its
        `Last-Event-ID`. They name what the dispatcher shows to its owner alone."""
        if not caller.is_owner:
            raise Forbidden(f"{caller.name} may query, and does not see what runs")
        after = request.headers.get("last-event-id")
        return StreamingResponse(inside.live.open(caller, after), media_type=MEDIA)


def _user(inside: Inside) -> Guard:
    async def find(request: Request) -> Caller:
        return inside.callers.find(request.method, request.headers)

    check: Callable[[Request], Awaitable[Caller]] = find
    return Guard(check=check, opened_by="user")


def _told(session: Session, key: str | None = None) -> LoggedIn:
    return LoggedIn(user=session.user, expires_at=session.expires_at, key=key)
