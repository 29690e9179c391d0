"""The interface contract, message by message: every request and response of it, field by field.

The examples are those of the contract, with ids that exist put in their places.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.support.control_plane import SECRETS, WORKER_TOKEN, ControlPlane

pytestmark = pytest.mark.anyio

WORKER = {"X-Trace-Worker-Token": WORKER_TOKEN}
USER = {"Authorization": f"Bearer {SECRETS.user_token}"}

DAG = """
name: monad
jobs:
  - { name: ticks, activation: source, source: { kind: manual } }
  - name: block_follower
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: ticks } }]
    outputs: [blocks, logs]
  - name: consumer
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: block_follower, output: blocks } }]
publish:
  hot_blocks: { from: { job: block_follower, output: 0 } }
"""


@pytest.fixture
async def http(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=plane.app)
    async with httpx.AsyncClient(transport=transport, base_url="https://dispatcher") as client:
        await plane.deploy(DAG)
        yield client


class Attempt:
    """A claimed attempt of block_follower, speaking the contract's JSON."""

    def __init__(self, http: httpx.AsyncClient, claimed: dict[str, Any]) -> None:
        self.http = http
        self.claimed = claimed
        self.fence = {
            "task_id": claimed["task"]["task_id"],
            "attempt": claimed["attempt"],
            "lease_token": claimed["lease_token"],
        }

    def output(self, index: int = 0) -> dict[str, Any]:
        target = self.claimed["task"]["outputs"][index]
        return {name: target[name] for name in ("dataset_uuid", "dataset_version")}

    async def post(self, path: str, **fields: Any) -> httpx.Response:
        token = {"X-Trace-Task-Capability": self.claimed["capability_token"]}
        return await self.http.post(path, json=self.fence | fields, headers=token)


async def queued(http: httpx.AsyncClient, plane: ControlPlane, cursor: int = 1) -> UUID:
    body = {"dataset": "monad.ticks", "events": [{"cursor": cursor}]}
    response = await http.post("/v1/events", json=body, headers=USER)
    assert response.json() == {"accepted": 1}
    await plane.settle()
    (task_id,) = plane.wake_ups()
    return task_id


async def claimed(http: httpx.AsyncClient, plane: ControlPlane) -> Attempt:
    body = {"task_id": str(await queued(http, plane)), "worker_id": "ecs:cluster/service/task"}
    response = await http.post("/internal/task-claim", json=body, headers=WORKER)
    assert response.status_code == 200, response.text
    return Attempt(http, response.json())


async def test_a_wake_up_is_the_task_id_and_nothing_else(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    body = {"dataset": "monad.ticks", "events": [{"cursor": 1}]}
    await http.post("/v1/events", json=body, headers=USER)
    await plane.settle()
    (message,) = plane.received.receive("ecs_platform", 10, 30)
    assert set(message.body) == {"task_id"}
    assert UUID(message.body["task_id"])


async def test_claim(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    task = (await claimed(http, plane)).claimed
    assert set(task) == {
        "status", "attempt", "lease_token", "lease_expires_at", "capability_token", "task",
    }  # fmt: skip
    assert task["status"] == "Claimed"
    assert task["attempt"] == 1
    assert UUID(task["lease_token"])
    assert task["lease_expires_at"].endswith("Z")
    assert task["capability_token"].count(".") == 2
    inner = task["task"]
    assert {"task_id", "attempt", "job", "operator", "config", "inputs"} <= set(inner)
    assert inner["attempt"] == 1
    assert inner["job"] == {"dag_name": "monad", "name": "block_follower"}
    assert inner["operator"] == "no_op"
    assert inner["config"] == {}
    assert inner["inputs"][0]["cursor"] == 1


@pytest.mark.parametrize(
    ("status", "reason"),
    [("Running", "AlreadyRunning"), ("Completed", "Completed"), ("Canceled", "Canceled")],
)
async def test_not_claimed(
    http: httpx.AsyncClient, plane: ControlPlane, status: str, reason: str
) -> None:
    attempt = await claimed(http, plane)
    if status != "Running":
        await attempt.post("/v1/task/complete", status=status, events=[], outputs=[])
    body = {"task_id": attempt.fence["task_id"], "worker_id": "w"}
    response = await http.post("/internal/task-claim", json=body, headers=WORKER)
    assert response.json() == {"status": "NotClaimed", "reason": reason}


async def test_not_claimed_when_there_is_no_such_task(http: httpx.AsyncClient) -> None:
    body = {"task_id": str(uuid4()), "worker_id": "w"}
    response = await http.post("/internal/task-claim", json=body, headers=WORKER)
    assert response.json() == {"status": "NotClaimed", "reason": "NotFound"}


async def test_fetch_shows_the_task_and_changes_nothing(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    task_id = await queued(http, plane)
    url = f"/internal/task-fetch?task_id={task_id}"
    answer = (await http.get(url, headers=WORKER)).json()
    assert answer["status"] == "Queued"
    wanted = {"task_id", "attempt", "job", "operator", "config", "inputs"}
    assert wanted <= set(answer["task"])
    assert answer["task"]["task_id"] == str(task_id)
    await http.post(f"/v1/tasks/{task_id}/cancel", headers=USER)
    assert (await http.get(url, headers=WORKER)).json()["status"] == "Canceled"
    assert (await http.get(url)).status_code == 401


async def test_heartbeat(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    attempt = await claimed(http, plane)
    answer = (await attempt.post("/v1/task/heartbeat")).json()
    assert answer["directive"] == "continue"
    assert answer["lease_expires_at"] >= attempt.claimed["lease_expires_at"]


async def test_events_as_a_single_one_as_a_partition_and_as_a_batch(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    attempt = await claimed(http, plane)
    single = attempt.output() | {"cursor": 12345}
    partition = attempt.output() | {
        "partition_key": "1000000-1010000", "start": 1000000, "end": 1010000,
    }  # fmt: skip
    batch = [attempt.output() | {"cursor": 12346}, attempt.output(1) | {"cursor": 12346}]
    for events, new in ([single], 1), ([partition], 1), (batch, 2), ([single], 0):
        response = await attempt.post("/v1/task/events", events=events)
        assert response.json() == {"accepted": new}
    stored = plane.sql(
        "SELECT cursor, partition_key, range_start, range_end, producer_task_id::text AS task,"
        " producer_attempt FROM events WHERE producer_task_id IS NOT NULL ORDER BY id"
    )
    assert [row["cursor"] for row in stored] == [12345, None, 12346, 12346]
    assert stored[1]["partition_key"] == "1000000-1010000"
    assert (stored[1]["range_start"], stored[1]["range_end"]) == (1000000, 1010000)
    producers = {(row["task"], row["producer_attempt"]) for row in stored}
    assert producers == {(attempt.fence["task_id"], 1)}


async def test_completion_with_tables_events_and_several_outputs(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    attempt = await claimed(http, plane)
    outputs = [
        {"output_index": index, "location": f"postgres_table:dataset_{target['dataset_uuid']}"}
        | target
        | {"cursor": 12345, "row_count": rows}
        for index, rows in ((0, 1000), (1, 20000))
        for target in [attempt.output(index)]
    ]
    response = await attempt.post(
        "/v1/task/complete",
        status="Completed",
        events=[attempt.output() | {"cursor": 12345}],
        outputs=outputs,
        error_message=None,
    )
    assert response.json() == {"status": "Completed"}
    versions = plane.sql(
        "SELECT location, cursor, row_count FROM dataset_versions WHERE location IS NOT NULL"
    )
    assert {(v["cursor"], v["row_count"]) for v in versions} == {(12345, 1000), (12345, 20000)}
    # One event per output: the one that was given is the first output's own.
    assert len(plane.sql("SELECT 1 FROM events WHERE cursor = 12345")) == 2
    await plane.settle()
    assert len(plane.wake_ups()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"location": "postgres_table:dataset_other"},
        {"location": "postgres_table:alert_events"},
        {"output_index": 1},
        {"cursor": None},
    ],
)
async def test_a_table_that_is_not_the_attempts_own_is_refused(
    http: httpx.AsyncClient, plane: ControlPlane, change: dict[str, Any]
) -> None:
    attempt = await claimed(http, plane)
    target = attempt.output()
    output = target | {
        "output_index": 0, "location": f"postgres_table:dataset_{target['dataset_uuid']}",
        "cursor": 5, "row_count": 1,
    }  # fmt: skip
    response = await attempt.post(
        "/v1/task/complete", status="Completed", outputs=[output | change]
    )
    assert response.status_code in (403, 422)
    assert plane.sql("SELECT 1 FROM dataset_versions WHERE location IS NOT NULL") == []


async def test_a_failure_and_a_cancellation_are_reported_with_their_message(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    attempt = await claimed(http, plane)
    response = await attempt.post(
        "/v1/task/complete", status="Failed", events=[], outputs=[], error_message="no such block"
    )
    assert response.json() == {"status": "Failed"}
    (row,) = plane.sql("SELECT status, error_message FROM tasks")
    assert row == {"status": "Failed", "error_message": "no such block"}


def batch(attempt: Attempt, **change: Any) -> dict[str, Any]:
    target = attempt.output()
    place = f"{target['dataset_uuid']}/{attempt.fence['task_id']}/{attempt.fence['attempt']}"
    uri = f"s3://trace-scratch/buffers/{place}/batch.jsonl"
    return target | {"batch_uri": uri, "record_count": 1000} | change


async def test_buffer_publish_is_recorded_once_and_sends_a_small_message(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    attempt = await claimed(http, plane)
    body = batch(attempt)
    for accepted in (True, False):
        response = await attempt.post("/v1/task/buffer-publish", **body)
        assert response.json() == {"accepted": accepted}
    await plane.settle()
    (message,) = plane.received.receive("buffer", 10, 30)
    assert message.body == {
        "kind": "buffer_batch",
        "org_id": str(plane.dispatcher.org_id),
        "dataset_uuid": body["dataset_uuid"],
        "dataset_version": body["dataset_version"],
        "batch_uri": body["batch_uri"],
        "record_count": 1000,
        "producer": {"task_id": attempt.fence["task_id"], "attempt": 1},
    }


async def test_a_batch_elsewhere_or_of_another_dataset_is_refused(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    attempt = await claimed(http, plane)
    own = batch(attempt)["batch_uri"]
    for change in (
        {"batch_uri": own.replace("/1/", "/2/")},
        {"batch_uri": own.replace("trace-scratch", "trace-data")},
        {"batch_uri": own.replace("/1/batch", "/1/../2/batch")},
        {"batch_uri": "s3://trace-scratch/buffers/"},
        {"batch_uri": own.rpartition("/")[0] + "/"},
        {"dataset_uuid": str(uuid4())},
        {"dataset_version": str(uuid4())},
        {"lease_token": str(uuid4())},
    ):
        response = await attempt.post("/v1/task/buffer-publish", **batch(attempt, **change))
        assert response.status_code in (403, 409, 422), change
    assert plane.sql("SELECT 1 FROM buffer_publishes") == []
    assert plane.sql("SELECT 1 FROM outbox WHERE kind = 'buffer'") == []


async def test_a_stale_attempt_is_told_so_by_every_endpoint(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    attempt = await claimed(http, plane)
    await attempt.post("/v1/task/complete", status="Canceled", events=[], outputs=[])
    event = attempt.output() | {"cursor": 1}
    for path, fields in (
        ("/v1/task/heartbeat", {}),
        ("/v1/task/events", {"events": [event]}),
        ("/v1/task/complete", {"status": "Completed"}),
        ("/v1/task/buffer-publish", batch(attempt)),
    ):
        response = await attempt.post(path, **fields)
        assert response.status_code == 409, path
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["code"] == "stale_fence"


async def test_a_token_of_another_task_or_attempt_opens_nothing(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    mine = await claimed(http, plane)
    body = {"task_id": str(await queued(http, plane, 2)), "worker_id": "w"}
    response = await http.post("/internal/task-claim", json=body, headers=WORKER)
    theirs = Attempt(http, response.json())
    before = plane.sql("SELECT * FROM tasks ORDER BY id")
    for fence in (theirs.fence, mine.fence | {"attempt": 2}):
        answer = await mine.post("/v1/task/complete", **fence, status="Completed")
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert plane.sql("SELECT * FROM tasks ORDER BY id") == before
