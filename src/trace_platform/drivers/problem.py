"""Errors as `application/problem+json`: the one place where an error becomes HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from trace_platform.domain import errors
from trace_platform.domain.errors import TraceError
from trace_platform.wire.task import Problem

_STATUS: dict[type[TraceError], int] = {
    errors.Unavailable: 503,
    errors.BadInput: 422,
    errors.NotFound: 404,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.Conflict: 409,
    errors.QueryCanceled: 409,
    errors.TooManyQueries: 429,
    errors.TooManyRequests: 429,
}


def status_of(error: TraceError) -> int:
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def problem(error: TraceError, status: int | None = None) -> JSONResponse:
    status = status or status_of(error)
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": type(error).__name__,
        "status": status,
        "code": error.code,
        "detail": error.message,
    }
    if error.hint:
        body["hint"] = error.hint
    if error.facts:
        body["facts"] = error.facts
    after = error.facts.get("retry_after_s")
    headers = {"Retry-After": str(after)} if after is not None else None
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def as_item(error: TraceError) -> Problem:
    """The error of one item of a batch whose other items may be fine."""
    return Problem(code=error.code, detail=error.message, hint=error.hint)


def install(app: FastAPI) -> None:
    @app.exception_handler(TraceError)
    async def _named(_: Request, error: TraceError) -> JSONResponse:
        return problem(error)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        # The values themselves stay out: a token or a secret may be among them.
        found = [
            {"field": ".".join(str(p) for p in e["loc"]), "problem": e["msg"]}
            for e in error.errors()
        ]
        said = "; ".join(_said(**each) for each in found)
        return problem(errors.BadInput(f"the request is not valid: {said}", errors=found))

    @app.exception_handler(Exception)
    async def _unexpected(_: Request, error: Exception) -> JSONResponse:
        # Starlette logs the traceback; a stranger is told nothing about the inside.
        return problem(errors.InternalError("a defect; the service's log has more"))

    @app.exception_handler(HTTPException)
    async def _plain(_: Request, error: HTTPException) -> JSONResponse:
        kind = errors.NotFound if error.status_code == 404 else errors.BadInput
        return problem(kind(str(error.detail)), error.status_code)


def _said(field: str, problem: str) -> str:
    """For whoever sent it: `body.limit` is `limit`, and the body as a whole has no name."""
    name, reason = field.partition(".")[2], problem.removeprefix("Value error, ")
    return f"{name}: {reason}" if name else reason
