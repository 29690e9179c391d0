"""Whose secret opens a route, in the words of OpenAPI: one list for every service."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI

from trace_platform.drivers.headers import (
    SERVICE_TOKEN,
    TASK_CAPABILITY,
    WEBHOOK_SIGNATURE,
    WORKER_TOKEN,
)

Secret = Literal["user", "worker", "service", "task", "webhook"]

_CAPABILITY = "The code of one attempt: the capability token that its claim returned"
SCHEMES: dict[str, dict[str, str]] = {
    "user": {
        "type": "http",
        "scheme": "bearer",
        "description": "People and their tools: secrets/user_token of the instance, or a token "
        "that `trace users add` made.",
    },
    "worker": {
        "type": "apiKey",
        "in": "header",
        "name": WORKER_TOKEN,
        "description": "Worker wrappers. Two are valid while it is rotated.",
    },
    "service": {
        "type": "apiKey",
        "in": "header",
        "name": SERVICE_TOKEN,
        "description": "The other services of the platform.",
    },
    "task": {
        "type": "apiKey",
        "in": "header",
        "name": TASK_CAPABILITY,
        "description": f"{_CAPABILITY}.",
    },
    "task_bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": f"{_CAPABILITY}, in the other header that may carry it. Where both are "
        "sent they carry the same token.",
    },
    "webhook": {
        "type": "apiKey",
        "in": "header",
        "name": WEBHOOK_SIGNATURE,
        "description": "Whoever delivers to a webhook: a Standard Webhooks signature.",
    },
}


def wanted(who: Secret) -> dict[str, Any]:
    """`openapi_extra` of a route: any one of these secrets opens it."""
    names = ("task", "task_bearer") if who == "task" else (who,)
    return {"security": [{name: []} for name in names]}


def install(app: FastAPI) -> None:
    """Describe the secrets that the routes of this service want."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        schema = describe()
        named = {
            name
            for methods in schema["paths"].values()
            for operation in methods.values()
            for each in operation.get("security", ())
            for name in each
        }
        known = {name: scheme for name, scheme in SCHEMES.items() if name in named}
        schema.setdefault("components", {})["securitySchemes"] = known
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
