"""A caller is who it says: decided by a request's head, before any of its body is read.

FastAPI reads and parses the body of a route before it looks at dependencies: whoever may call the
route would be asked after a stranger's megabytes were held. So a route says who may call it with
a Guard, and GuardedRoute asks first.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Depends, FastAPI, Request, Response, params
from fastapi.routing import APIRoute

from trace_platform.domain.errors import SetupError, Unauthenticated
from trace_platform.drivers.headers import (
    AUTHORIZATION,
    SERVICE_TOKEN,
    TASK_CAPABILITY,
    WORKER_TOKEN,
)
from trace_platform.drivers.secret_schemes import Secret, wanted


@dataclass(frozen=True, kw_only=True)
class Guard(params.Depends):
    """Who may call a route: one of its `dependencies`, for GuardedRoute alone. The check raises
    Unauthenticated, or returns who it is; it does not read the body. `opened_by` says whose secret
    it wants, for the description of the API."""

    check: Callable[[Request], Awaitable[Any]]
    opened_by: Secret | None = None


class GuardedRoute(APIRoute):
    """A route that cannot be made without a guard, and reads no body before the guard agrees."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        dependencies: Sequence[params.Depends] | None = None,
        **options: Any,
    ) -> None:
        given = list(dependencies or ())
        guards = [each for each in given if isinstance(each, Guard)]
        if len(guards) != 1:
            raise SetupError(f"the route {path} does not say who may call it")
        self.guard = guards[0]
        others = [each for each in given if each is not self.guard]
        if self.guard.opened_by is not None:
            options["openapi_extra"] = wanted(self.guard.opened_by) | (
                options.get("openapi_extra") or {}
            )
        super().__init__(path, endpoint, dependencies=others, **options)
        if self.guard is OPEN and self.body_field is not None:
            raise SetupError(f"the route {path} reads a body from anybody")

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        check, answer = self.guard.check, super().get_route_handler()

        async def guarded(request: Request) -> Response:
            request.state.caller = await check(request)
            return await answer(request)

        return guarded


def guard_routes(app: FastAPI) -> None:
    """Every route that is added from now on needs a guard."""
    app.router.route_class = GuardedRoute


async def _whoever(_: Request) -> None:
    """Anybody may ask, and nothing of a body is read."""


OPEN = Guard(check=_whoever)


async def _found(request: Request) -> Any:
    return request.state.caller


_SECRETS: dict[str, Secret] = {
    AUTHORIZATION: "user",
    WORKER_TOKEN: "worker",
    SERVICE_TOKEN: "service",
}

# As a parameter of a route: who its guard found.
CALLER: Any = Depends(_found)


def require(accepted: Callable[[], Sequence[str]], header: str) -> Guard:
    """Lets a caller in who holds one of the secrets."""
    if not all(accepted()):
        raise SetupError(f"the secret behind {header} is empty")

    async def check(request: Request) -> None:
        given = bearer(request) if header == AUTHORIZATION else request.headers.get(header, "")
        refuse_unknown(given.encode(), accepted(), header)

    return Guard(check=check, opened_by=_SECRETS[header])


def bearer(request: Request) -> str:
    """The token of `Authorization: Bearer TOKEN`; empty when there is none."""
    scheme, _, token = request.headers.get(AUTHORIZATION, "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def capability(request: Request) -> str:
    """The token of an attempt, in either header that it may be sent in; empty when there is none.
    Raise Unauthenticated for two that differ: which of them counts would be a guess."""
    sent = {*request.headers.getlist(TASK_CAPABILITY), bearer(request)} - {""}
    if len(sent) > 1:
        raise Unauthenticated(
            f"{TASK_CAPABILITY} and {AUTHORIZATION} carry different tokens",
            hint=f"send the attempt's capability token in one of them: {TASK_CAPABILITY}: TOKEN, "
            "or Authorization: Bearer TOKEN",
        )
    return sent.pop() if sent else ""


def refuse_unknown(given: bytes, accepted: Sequence[str], header: str) -> None:
    # Every one of them is compared: how long it takes tells nothing.
    matches = [hmac.compare_digest(given, secret.encode()) for secret in accepted]
    if not (given and any(matches)):
        hint = "send it as Authorization: Bearer TOKEN" if header == AUTHORIZATION else None
        raise Unauthenticated(f"{header} is missing or wrong", hint=hint)
