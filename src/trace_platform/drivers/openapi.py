"""How a service describes its API: whose secret opens a route, and how it says that it failed."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from trace_platform.drivers import secret_schemes
from trace_platform.drivers.secret_schemes import Secret
from trace_platform.wire.control import ProblemDetails

_WORDS = {
    400: "The body is not what its content type says (bad_input).",
    401: "The secret is missing or wrong (unauthenticated).",
    403: "The secret is right, but not for this (forbidden).",
    404: "There is no such thing (not_found, unknown_dataset).",
    409: "The state does not allow it (conflict, stale_fence, job_on_hold, partition_overlap, "
    "generation_purged, past_forgotten, query_canceled).",
    413: "The body is too large (bad_input).",
    422: "The request is not valid (bad_input, invalid_...); `facts.errors` names the fields.",
    429: "There is no room now (too_many_queries); `Retry-After` says when to ask again.",
    500: "A defect (internal_error); the service's log has more.",
    503: "Trying again may help (unavailable).",
}
_ALWAYS = (400, 422, 500, 503)


def documented(tag: str, who: Secret | None, *statuses: int) -> dict[str, Any]:
    """Arguments of a route: its group, and which errors it knows. Whose secret it wants its guard
    says."""
    refusals = (401,) if who else ()
    return {
        "tags": [tag],
        "responses": {s: _problem(s) for s in sorted({*refusals, *statuses, *_ALWAYS})},
        "openapi_extra": {},
    }


def documented_figures() -> dict[str, Any]:
    """The same of `/metrics`, which answers in Prometheus' words."""
    described = documented("services", "user")
    text = {"text/plain": {"schema": {"type": "string"}}}
    described["responses"][200] = {"description": "Prometheus' text format.", "content": text}
    return described


def documented_lines(tag: str, *statuses: int) -> dict[str, Any]:
    """The same of a route that answers with a JSON object a line."""
    described = documented(tag, "user", *statuses)
    lines = {"application/x-ndjson": {"schema": {"type": "string"}}}
    described["responses"][200] = {"description": "A JSON object a line.", "content": lines}
    return described


def install(app: FastAPI) -> None:
    """The shared parts that the routes point to."""
    secret_schemes.install(app)
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        schema = describe()
        schemas = schema["components"].setdefault("schemas", {})
        schemas["ProblemDetails"] = ProblemDetails.model_json_schema()
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


def _problem(status: int) -> dict[str, Any]:
    shape = {"$ref": "#/components/schemas/ProblemDetails"}
    return {
        "description": _WORDS[status],
        "content": {"application/problem+json": {"schema": shape}},
    }
