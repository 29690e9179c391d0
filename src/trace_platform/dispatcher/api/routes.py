"""Who may call a route: said once, checked and described."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from trace_platform.dispatcher.dispatcher import Secrets
from trace_platform.dispatcher.tasks.task_tokens import TaskTokens
from trace_platform.domain.errors import Unauthenticated
from trace_platform.drivers.authenticate import OPEN, Guard, capability, require
from trace_platform.drivers.headers import (
    AUTHORIZATION,
    SERVICE_TOKEN,
    WEBHOOK_SIGNATURE,
    WORKER_TOKEN,
)
from trace_platform.drivers.openapi import documented
from trace_platform.drivers.secret_schemes import Secret
from trace_platform.drivers.task_token import TaskClaims


class Routes:
    """`**route("datasets", "user", 404)`: a route of this group, for holders of this secret, that
    may answer with these errors. The route itself holds a task's claims against the fence, and a
    webhook's signature against the body."""

    def __init__(self, secrets: Secrets, tokens: TaskTokens) -> None:
        self._guards: dict[Secret | None, Guard] = {
            "user": require(lambda: (secrets.user_token,), AUTHORIZATION),
            "worker": require(secrets.worker_tokens, WORKER_TOKEN),
            "service": require(lambda: (secrets.service_token,), SERVICE_TOKEN),
            "task": _capability(tokens),
            "webhook": Guard(check=_signed, opened_by="webhook"),
            None: OPEN,
        }

    def __call__(self, tag: str, who: Secret | None, *statuses: int) -> dict[str, Any]:
        return {"dependencies": [self._guards[who]], **documented(tag, who, *statuses)}


def _capability(tokens: TaskTokens) -> Guard:
    async def check(request: Request) -> TaskClaims:
        return tokens.read(capability(request))

    return Guard(check=check, opened_by="task")


async def _signed(request: Request) -> None:
    """That there is a signature; whether it is right only the body tells."""
    if not request.headers.get(WEBHOOK_SIGNATURE):
        raise Unauthenticated("the delivery is not signed for this address")
