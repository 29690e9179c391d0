"""The HTTP face: who may call what, the shapes of the contract, errors as problem+json."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from tests.support.authorization import READINGS
from tests.support.control_plane import DAG, SECRETS, WORKER_TOKEN, ControlPlane, stage
from trace_platform.dispatcher.api.create_app import create_app
from trace_platform.drivers.https import BodyLimit

# No task has this id.
NOBODY = "00000000-0000-7000-8000-000000000000"

pytestmark = pytest.mark.anyio

WORKER = {"X-Trace-Worker-Token": WORKER_TOKEN}
SERVICE = {"X-Trace-Service-Token": SECRETS.service_token}
USER = {"Authorization": f"Bearer {SECRETS.user_token}"}


@pytest.fixture
async def http(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=plane.app)
    async with httpx.AsyncClient(transport=transport, base_url="https://dispatcher") as client:
        yield client


async def claim(http: httpx.AsyncClient, plane: ControlPlane) -> dict[str, Any]:
    body = {"task_id": str(await plane.queued_ingest()), "worker_id": "ecs:a/b/c"}
    response = await http.post("/internal/task-claim", json=body, headers=WORKER)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def fence(claimed: dict[str, Any]) -> dict[str, Any]:
    return {
        "task_id": claimed["task"]["task_id"],
        "attempt": claimed["attempt"],
        "lease_token": claimed["lease_token"],
    }


def capability(claimed: dict[str, Any]) -> dict[str, str]:
    return {"X-Trace-Task-Capability": claimed["capability_token"]}


async def test_a_claim_has_the_fields_of_the_contract(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    claimed = await claim(http, plane)
    assert set(claimed) == {
        "status", "attempt", "lease_token", "lease_expires_at", "capability_token", "task",
    }  # fmt: skip
    assert claimed["status"] == "Claimed"
    assert {"task_id", "attempt", "job", "operator", "config", "inputs"} <= set(claimed["task"])
    assert claimed["task"]["job"] == {"dag_name": "chain", "name": "ingest"}
    again = {"task_id": claimed["task"]["task_id"], "worker_id": "other"}
    response = await http.post("/internal/task-claim", json=again, headers=WORKER)
    assert response.json() == {"status": "NotClaimed", "reason": "AlreadyRunning"}


async def test_an_attempt_beats_emits_and_completes_over_http(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    claimed = await claim(http, plane)
    headers = capability(claimed)
    beat = await http.post("/v1/task/heartbeat", json=fence(claimed), headers=headers)
    assert beat.json()["directive"] == "continue"
    target = claimed["task"]["outputs"][1]
    cursor = {k: target[k] for k in ("dataset_uuid", "dataset_version")} | {"cursor": 12345}
    emitted = await http.post(
        "/v1/task/events", json=fence(claimed) | {"events": [cursor]}, headers=headers
    )
    assert emitted.json() == {"accepted": 1}
    done = await http.post(
        "/v1/task/complete",
        json=fence(claimed)
        | {"status": "Completed", "events": [cursor], "outputs": [], "error_message": None},
        headers=headers,
    )
    assert (done.status_code, done.json()) == (200, {"status": "Completed"})
    fetched = await http.get(
        "/internal/task-fetch", params={"task_id": claimed["task"]["task_id"]}, headers=WORKER
    )
    assert fetched.json()["status"] == "Completed"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/internal/task-claim", {"task_id": NOBODY, "worker_id": "w"}),
        ("GET", f"/internal/task-fetch?task_id={NOBODY}", None),
        ("GET", "/internal/datasets", None),
        ("POST", "/v1/dags", {"yaml": DAG}),
        ("GET", "/v1/dags/chain", None),
        ("GET", "/v1/tasks", None),
        ("POST", "/v1/sources/chain/request/trigger", {"start": 0, "end": 1}),
        ("POST", f"/v1/tasks/{NOBODY}/cancel", None),
        ("POST", f"/v1/tasks/{NOBODY}/retry", None),
        ("GET", f"/v1/tasks/{NOBODY}", None),
        ("GET", f"/v1/tasks/{NOBODY}/logs", None),
        ("GET", "/v1/events", None),
        ("POST", "/v1/events", {"dataset": "blocks", "events": [{"cursor": 1}]}),
        ("POST", "/v1/jobs/chain/split/pause", None),
        ("POST", "/v1/jobs/chain/split/resume", None),
        ("GET", "/v1/queues", None),
        ("GET", "/v1/why/chain.split", None),
        ("GET", "/v1/health", None),
        ("GET", "/metrics", None),
    ],
)
async def test_nothing_answers_without_the_right_secret(
    http: httpx.AsyncClient, method: str, path: str, body: Any
) -> None:
    """Each secret opens its own doors: the others' do not help."""
    refused = 0
    for headers in ({}, WORKER, SERVICE, USER, {"Authorization": "Bearer "}):
        response = await http.request(method, path, json=body, headers=headers)
        if response.status_code == 401:
            refused += 1
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["code"] == "unauthenticated"
    assert refused == 4


async def test_a_users_token_is_sent_as_bearer(http: httpx.AsyncClient) -> None:
    for written, opens in READINGS:
        sent = {"Authorization": written.format(SECRETS.user_token)}
        answer = await http.get("/v1/queues", headers=sent)
        assert answer.status_code == (200 if opens else 401), written


@pytest.mark.parametrize(
    ("path", "header", "token"),
    [
        ("/internal/schedules", "X-Trace-Service-Token", SECRETS.service_token),
        (f"/internal/task-fetch?task_id={NOBODY}", "X-Trace-Worker-Token", WORKER_TOKEN),
    ],
)
async def test_a_token_with_a_header_of_its_own_has_no_scheme(
    http: httpx.AsyncClient, path: str, header: str, token: str
) -> None:
    assert (await http.get(path, headers={header: f"Bearer {token}"})).status_code == 401
    assert (await http.get(path, headers={header: token})).status_code in (200, 404)


async def test_every_route_is_closed_to_those_without_the_secret_that_it_names(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    described = create_app(plane.dispatcher).openapi()["paths"]
    open_to_all = set()
    for path, methods in described.items():
        for method, route in methods.items():
            if not route.get("security"):
                open_to_all.add(path)
                continue
            answer = await http.request(method, path.replace("{", "").replace("}", ""), json={})
            assert answer.status_code == 401, (method, path)
    assert open_to_all == {"/healthz", "/internal/jwks/task"}


def forged_tokens(claimed: dict[str, Any], plane: ControlPlane) -> dict[str, str]:
    good = claimed["capability_token"]
    header, payload, signature = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    key = ECKey.generate_key("P-256")
    kid = plane.dispatcher.grants.tokens.jwks["keys"][0]["kid"]
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    tampered = base64.urlsafe_b64encode(json.dumps(claims | {"attempt": 2}).encode())
    public = json.dumps(plane.dispatcher.grants.tokens.jwks["keys"][0]).encode()
    sign = plane.dispatcher.grants.tokens._signer.sign
    return {
        "garbage": "not.a.token",
        "empty": "",
        "alg none": f"{none}.{payload}.",
        "stripped signature": f"{header}.{payload}.",
        "tampered claims": f"{header}.{tampered.rstrip(b'=').decode()}.{signature}",
        "foreign key": jwt.encode({"alg": "ES256", "kid": kid}, claims, key),
        "foreign key brought along": jwt.encode(
            {"alg": "ES256", "jwk": key.as_dict(private=False)}, claims, key
        ),
        "public key as hmac secret": jwt.encode(
            {"alg": "HS256", "kid": kid}, claims, OctKey.import_key(public)
        ),
        "expired": sign(claims | {"exp": 1}),
        "another audience": sign(claims | {"aud": "trace-user"}),
        "another issuer": sign(claims | {"iss": "somebody"}),
        "no expiry": sign({k: v for k, v in claims.items() if k != "exp"}),
    }


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_forged_tokens_open_nothing(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    claimed = await claim(http, plane)
    before = plane.sql("SELECT * FROM tasks")
    for kind, token in forged_tokens(claimed, plane).items():
        for path in ("heartbeat", "complete", "events"):
            body = fence(claimed)
            body |= {"status": "Completed"} if path == "complete" else {}
            body |= {"events": [_event(claimed)]} if path == "events" else {}
            response = await http.post(
                f"/v1/task/{path}", json=body, headers={"X-Trace-Task-Capability": token}
            )
            assert response.status_code == 401, (kind, path, response.text)
    assert plane.sql("SELECT * FROM tasks") == before


async def test_the_token_of_an_attempt_goes_in_either_header(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    claimed = await claim(http, plane)
    token = claimed["capability_token"]
    named, bearer = capability(claimed), {"Authorization": f"Bearer {token}"}
    for headers in (named, bearer, named | bearer, named | {"Authorization": "Basic bWU6cHc="}):
        answer = await http.post("/v1/task/heartbeat", json=fence(claimed), headers=headers)
        assert answer.status_code == 200, headers
    twice = [*named.items(), ("X-Trace-Task-Capability", f"{token[:-4]}AAAA")]
    for headers in (named | {"Authorization": f"Bearer {SECRETS.user_token}"}, twice):
        answer = await http.post("/v1/task/heartbeat", json=fence(claimed), headers=headers)
        assert answer.status_code == 401, headers
        assert "different tokens" in answer.text
        assert token not in answer.text


async def test_a_token_of_another_attempt_or_task_is_forbidden(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    claimed = await claim(http, plane)
    for change in ({"attempt": 2}, {"task_id": str(uuid4())}):
        body = fence(claimed) | change
        response = await http.post("/v1/task/heartbeat", json=body, headers=capability(claimed))
        assert (response.status_code, response.json()["code"]) == (403, "forbidden")


async def test_a_stale_fence_is_a_named_conflict(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    claimed = await claim(http, plane)
    body = fence(claimed) | {"lease_token": str(uuid4())}
    response = await http.post("/v1/task/heartbeat", json=body, headers=capability(claimed))
    assert (response.status_code, response.json()["code"]) == (409, "stale_fence")


async def test_the_token_lists_what_the_attempt_may_touch(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    claimed = await claim(http, plane)
    payload = claimed["capability_token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert claims["write_prefixes"] == [o["prefix"] for o in claimed["task"]["outputs"]]
    assert claims["exp"] - claims["iat"] == 1800 + 300
    jwks = (await http.get("/internal/jwks/task")).json()
    assert set(jwks["keys"][0]) == {"kty", "crv", "x", "y", "kid"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"yaml": 5},
        {"yaml": "a: 1", "surprise": True},
    ],
)
async def test_a_request_of_the_wrong_shape_says_which_field(
    http: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    response = await http.post("/v1/dags", json=body, headers=USER)
    assert response.status_code == 422
    assert response.json()["code"] == "bad_input"
    assert response.json()["facts"]["errors"][0]["field"].startswith("body.")


async def test_a_bad_dag_lists_every_error_with_its_line(http: httpx.AsyncClient) -> None:
    bad = DAG.replace("operator: range_splitter", "operater: range_splitter").replace(
        "job: split, output: chunks", "job: splat"
    )
    response = await http.post("/v1/dags", json={"yaml": bad, "file": "my.yaml"}, headers=USER)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_dag")
    assert any(e.startswith("my.yaml:12:") for e in response.json()["facts"]["errors"])


async def test_published_datasets_are_resolved_for_services_only(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    await plane.complete(claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, 0, 9)])
    body = {"datasets": [{"name": "blocks"}, {"name": "logs"}]}
    assert (await http.post("/internal/datasets/resolve", json=body)).status_code == 401
    answer = (await http.post("/internal/datasets/resolve", json=body, headers=SERVICE)).json()
    files = {d["name"]: d["files"] for d in answer["datasets"]}
    assert files["blocks"] == [claimed.task.outputs[0].prefix + "blocks_0_9.parquet"]
    assert files["logs"] == []


async def test_unknown_things_are_not_found(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    await plane.deploy()
    for method, path, body in (
        ("GET", "/v1/dags/nothing", None),
        ("POST", "/v1/sources/nothing/request/trigger", {"start": 0, "end": 1}),
        ("POST", "/v1/sources/chain/nothing/trigger", {"start": 0, "end": 1}),
        ("POST", f"/v1/tasks/{NOBODY}/cancel", None),
        ("POST", f"/v1/tasks/{uuid4()}/retry", None),
        ("GET", "/v1/why/chain.nothing", None),
        ("POST", "/v1/jobs/nothing/split/pause", None),
        ("GET", "/nowhere", None),
    ):
        response = await http.request(method, path, json=body, headers=USER)
        assert (response.status_code, response.json()["code"]) == (404, "not_found"), path


async def test_values_that_postgres_cannot_hold_are_bad_input(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    claimed = await claim(http, plane)
    headers = capability(claimed)
    for path, change in (
        ("heartbeat", {"progress": {"done": 1, "total": 10**400}}),
        ("complete", {"status": "Failed", "error_message": "a\0b"}),
        (
            "events",
            {"events": [_event(claimed) | {"start": None, "end": None, "partition_key": "\0"}]},
        ),
        ("complete", {"status": "Completed", "outputs": [{"row_count": 2**70}]}),
    ):
        response = await http.post(
            f"/v1/task/{path}", json=fence(claimed) | change, headers=headers
        )
        assert (response.status_code, response.json()["code"]) == (422, "bad_input"), path
    for method, path, body in (
        ("GET", "/v1/dags/%00", None),
        ("GET", "/v1/tasks?dag_name=%00", None),
        ("GET", "/v1/events?dataset=%00", None),
        ("GET", "/v1/why/%00.x", None),
        ("POST", "/v1/jobs/%00/x/pause", None),
        ("POST", "/v1/sources/%00/x/trigger", {"start": 0, "end": 1}),
    ):
        response = await http.request(method, path, json=body, headers=USER)
        assert response.status_code == 422, path
    nul = DAG.replace("rpc_pool: demo", 'rpc_pool: "a\\0b"')
    response = await http.post("/v1/dags", json={"yaml": nul}, headers=USER)
    assert response.status_code == 422


async def test_a_body_that_is_too_large_is_not_read(plane: ControlPlane) -> None:
    limited = BodyLimit(create_app(plane.dispatcher), 1000)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=limited), base_url="https://dispatcher"
    ) as http:

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x" * 100

        for content in (b"x" * 2000, chunks()):
            response = await http.post("/internal/task-claim", content=content, headers=WORKER)
            assert response.status_code == 413
            assert "larger than" in response.text


async def test_an_event_names_one_shape(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    claimed = await claim(http, plane)
    good = _event(claimed)
    for change in (
        {"cursor": 5},
        {"partition_key": "0-8"},
        {"start": None},
        {"end": 2**63},
        {"start": -1, "partition_key": "-1-9"},
    ):
        body = fence(claimed) | {"events": [good | change]}
        response = await http.post("/v1/task/events", json=body, headers=capability(claimed))
        assert response.status_code == 422, change


def _event(claimed: dict[str, Any]) -> dict[str, Any]:
    target = claimed["task"]["outputs"][0]
    return {
        "dataset_uuid": target["dataset_uuid"],
        "dataset_version": target["dataset_version"],
        "partition_key": "0-9",
        "start": 0,
        "end": 9,
    }
