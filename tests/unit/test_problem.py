"""Errors as HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fastapi import FastAPI
from pydantic import BaseModel, Field, model_validator

from trace_platform.domain import errors
from trace_platform.drivers import problem


class Body(BaseModel):
    start: int = Field(ge=0)
    end: int

    @model_validator(mode="after")
    def _in_order(self) -> Body:
        if self.end < self.start:
            raise ValueError("it ends before it starts")
        return self


async def refused(app: FastAPI, path: str, body: dict[str, int]) -> dict[str, Any]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == 422
    found: dict[str, Any] = answer.json()
    return found


def test_a_request_that_is_not_valid_says_what_is_wrong_with_which_field() -> None:
    app = FastAPI()
    problem.install(app)

    @app.post("/ranges")
    async def ranges(body: Body, limit: int = 1) -> None:
        pass

    fields = asyncio.run(refused(app, "/ranges?limit=x", {"start": -1}))
    whole = asyncio.run(refused(app, "/ranges", {"start": 2, "end": 1}))
    assert fields["detail"].startswith("the request is not valid: limit: Input should be a valid")
    assert "; start: Input should be greater than or equal to 0; end: Field" in fields["detail"]
    assert [each["field"] for each in fields["facts"]["errors"]] == [
        "query.limit", "body.start", "body.end",
    ]  # fmt: skip
    assert whole["detail"] == "the request is not valid: it ends before it starts"


def test_a_finer_name_within_a_process_stands_for_no_other_class() -> None:
    class WrongHost(errors.Forbidden):
        pass

    assert WrongHost.code == errors.Forbidden.code
    assert errors.subclasses()[WrongHost.code] is errors.Forbidden
