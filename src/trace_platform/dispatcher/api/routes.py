"""Who may call a route: said once, checked and described."""

from __future__ import annotations

from typing import Any

from trace_platform.dispatcher.api.openapi import Secret, documented
from trace_platform.dispatcher.dispatcher import Secrets
from trace_platform.drivers.authenticate import require
from trace_platform.wire.headers import AUTHORIZATION, SERVICE_TOKEN, WORKER_TOKEN


class Routes:
    """`**route("datasets", "user", 404)`: a route of this group, for holders of this secret, that
    may answer with these errors. A task's token is checked with its fence and a webhook's signature
    with its body: by the route itself."""

    def __init__(self, secrets: Secrets) -> None:
        self._checks = {
            "user": require(lambda: (secrets.user_token,), AUTHORIZATION),
            "worker": require(secrets.worker_tokens, WORKER_TOKEN),
            "service": require(lambda: (secrets.service_token,), SERVICE_TOKEN),
        }

    def __call__(self, tag: str, who: Secret | None, *statuses: int) -> dict[str, Any]:
        checks = [self._checks[who]] if who in self._checks else []
        return {"dependencies": checks, **documented(tag, who, *statuses)}
