"""A route says who may call it, or there is no route."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from tests.support.corpus import corpus
from trace_platform.domain.errors import SetupError, Unauthenticated
from trace_platform.drivers import problem
from trace_platform.drivers.authenticate import CALLER, OPEN, Guard, capability, guard_routes
from trace_platform.query.service.api import create_app


async def answered(body: dict[str, Any], caller: str = CALLER) -> dict[str, Any]:
    return {"caller": caller, "body": body}


async def told() -> str:
    return "hello"


async def known(request: Request) -> str:
    name = request.headers.get("x-name")
    if not name:
        raise Unauthenticated("who are you?")
    return name


@pytest.fixture
def app() -> FastAPI:
    app = FastAPI()
    problem.install(app)
    guard_routes(app)
    return app


def test_a_route_without_a_guard_cannot_be_made(app: FastAPI) -> None:
    for guards in ([], [OPEN, Guard(check=known)]):
        with pytest.raises(SetupError, match="/somewhere does not say who may call it"):
            app.get("/somewhere", dependencies=guards)(told)


def test_an_open_route_that_takes_a_body_cannot_be_made(app: FastAPI) -> None:
    app.get("/somewhere", dependencies=[OPEN])(told)
    with pytest.raises(SetupError, match="/somewhere reads a body from anybody"):
        app.post("/somewhere", dependencies=[OPEN])(answered)


def test_a_guard_on_an_app_that_asks_none_opens_nothing() -> None:
    with pytest.raises(AssertionError):
        FastAPI().get("/somewhere", dependencies=[Guard(check=known)])(told)


@pytest.mark.parametrize(("name", "status"), [("", 401), ("ann", 200)])
def test_the_guard_is_asked_before_the_body_is_read(app: FastAPI, name: str, status: int) -> None:
    app.post("/somewhere", dependencies=[Guard(check=known)])(answered)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/somewhere",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"x-name", name.encode())],
    }
    reads, sent = [], []

    async def receive() -> dict[str, Any]:
        reads.append(1)
        return {"type": "http.request", "body": b'{"a": 1}', "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == status
    assert bool(reads) is (status == 200)


def test_a_route_learns_who_its_guard_found(app: FastAPI) -> None:
    app.post("/somewhere", dependencies=[Guard(check=known)])(answered)

    async def scenario() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="https://here") as http:
            return await http.post("/somewhere", json={"a": 1}, headers={"X-Name": "ann"})

    assert asyncio.run(scenario()).json() == {"caller": "ann", "body": {"a": 1}}


def test_a_service_describes_whose_secret_opens_each_of_its_routes() -> None:
    described = create_app(*(SimpleNamespace() for _ in range(4))).openapi()  # type: ignore[arg-type]
    schemes = described["components"]["securitySchemes"]
    assert set(schemes) == {"user", "task", "task_bearer"}
    assert schemes["task"]["name"] == "X-Trace-Task-Capability"
    for path, methods in described["paths"].items():
        kinds = ["task", "task_bearer"] if path.startswith("/v1/task/") else ["user"]
        wanted = None if path == "/healthz" else [{kind: []} for kind in kinds]
        assert {route: found.get("security") for route, found in methods.items()} == dict.fromkeys(
            methods, wanted
        ), path


def with_headers(*headers: tuple[str, str]) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    return Request({"type": "http", "headers": raw})


NAMED, BEARER = ("X-Trace-Task-Capability", "t"), ("Authorization", "Bearer t")


@corpus(
    ("headers", "found"),
    [
        ((), ""),
        ((NAMED,), "t"),
        ((BEARER,), "t"),
        ((NAMED, BEARER), "t"),
        ((NAMED, NAMED), "t"),
        ((NAMED, ("Authorization", "Basic bWU6cHc=")), "t"),
        ((("X-Trace-Task-Capability", ""), BEARER), "t"),
    ],
)
def test_a_capability_goes_in_either_header(
    headers: tuple[tuple[str, str], ...], found: str
) -> None:
    assert capability(with_headers(*headers)) == found


@pytest.mark.parametrize(
    "other", [("Authorization", "Bearer hunter2"), ("X-Trace-Task-Capability", "hunter2")]
)
def test_two_capabilities_that_differ_are_refused(other: tuple[str, str]) -> None:
    with pytest.raises(Unauthenticated, match="different tokens") as refused:
        capability(with_headers(NAMED, other))
    assert "hunter2" not in f"{refused.value.message}{refused.value.hint}"
