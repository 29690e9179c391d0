"""What people see: tasks with their history and logs, events, queues, pauses, health."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest

from tests.support.control_plane import DAG, SECRETS, ControlPlane, stage
from trace_platform.dispatcher.tasks.read_task_log import MAX_BYTES
from trace_platform.domain.prefix import log_uri
from trace_platform.drivers.postgres.queries import split_queries
from trace_platform.state import overview

pytestmark = pytest.mark.anyio

USER = {"Authorization": f"Bearer {SECRETS.user_token}"}


@pytest.fixture
async def http(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=plane.app)
    async with httpx.AsyncClient(
        transport=transport, base_url="https://dispatcher", headers=USER
    ) as client:
        yield client


async def got(http: httpx.AsyncClient, path: str, **query: Any) -> dict[str, Any]:
    response = await http.get(path, params=query)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def refused(http: httpx.AsyncClient, path: str, **query: Any) -> tuple[int, dict[str, Any]]:
    response = await http.get(path, params=query)
    assert response.headers["content-type"] == "application/problem+json", response.text
    return response.status_code, response.json()


def worker(plane: ControlPlane, name: str = "w", slots: int = 2, age_s: float = 0) -> None:
    plane.sql(
        "INSERT INTO workers (worker_id, runtime, slots, seen_at)"
        " VALUES (%s, 'ecs_platform', %s, clock_timestamp() - make_interval(secs => %s))",
        name,
        slots,
        age_s,
    )


def tasks_made(plane: ControlPlane, job: str, count: int, **columns: str) -> list[UUID]:
    """Rows as routing would make them, with columns as the test needs them."""
    names, values = "".join(f", {c}" for c in columns), "".join(f", {v}" for v in columns.values())
    made = plane.sql(
        "INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs"
        f"{names})"
        " SELECT org_id, id, generation_id, 'test-' || gen_random_uuid(), runtime, priority, '[]'"
        f"{values} FROM jobs JOIN dag_version_jobs ON job_id = id, generate_series(1, %s)"
        " WHERE name = %s RETURNING id",
        count,
        job,
    )
    return [row["id"] for row in made]


def of_another_org(plane: ControlPlane, task_id: UUID) -> None:
    plane.sql("INSERT INTO orgs (slug, name) VALUES ('other', 'Other')")
    plane.sql(
        "UPDATE tasks SET org_id = (SELECT id FROM orgs WHERE slug = 'other') WHERE id = %s",
        task_id,
    )


# --- one task


async def test_a_task_shows_its_whole_history(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    first = await plane.claimed(task_id, "worker-1")
    await plane.complete(first, status="Failed", error_code="rpc_unreachable", error_message="away")
    plane.sql("UPDATE tasks SET status = 'Queued', next_retry_at = NULL WHERE id = %s", task_id)
    second = await plane.claimed(task_id, "worker-2")

    shown = await got(http, f"/v1/tasks/{task_id}")
    assert (shown["status"], shown["attempt"], shown["worker_id"]) == ("Running", 2, "worker-2")
    assert [(a["attempt"], a["worker_id"], a["outcome"]) for a in shown["attempts"]] == [
        (1, "worker-1", "Failed"),
        (2, "worker-2", None),
    ]
    assert shown["attempts"][0]["error_code"] == "rpc_unreachable"
    assert shown["inputs"][0]["partition_key"] == "0-9"
    assert [o["name"] for o in shown["outputs"]] == ["blocks", "transactions", "logs"]
    assert shown["limits"]["max_attempts"] == 3
    assert shown["limits"]["priority"] == "normal"
    assert shown["lease_expires_at"] is not None

    await plane.complete(second, outputs=[stage(plane.dispatcher.store, second, 0, 0, 9)])
    shown = await got(http, f"/v1/tasks/{task_id}")
    assert [a["outcome"] for a in shown["attempts"]] == ["Failed", "Completed"]


@pytest.mark.parametrize(
    "path", ["/v1/tasks/{}", "/v1/tasks/{}/logs", "/v1/tasks/{}/log-file", "/v1/why/{}"]
)
async def test_a_task_of_another_organisation_does_not_exist(
    http: httpx.AsyncClient, plane: ControlPlane, path: str
) -> None:
    task_id = await plane.queued_split()
    await plane.claimed(task_id)
    of_another_org(plane, task_id)
    for named in (task_id, uuid4()):
        status, problem = await refused(http, path.format(named))
        assert (status, problem["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/v1/tasks/nonsense", "/v1/tasks/1/logs", "/v1/tasks/%00"])
async def test_an_id_that_is_none_is_bad_input(http: httpx.AsyncClient, path: str) -> None:
    status, problem = await refused(http, path)
    assert (status, problem["code"]) == (422, "bad_input")


async def test_tasks_are_found_by_how_their_id_begins(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    task_id = str(await plane.queued_split())
    for prefix in (task_id, task_id[:13], task_id[:8].upper(), task_id.replace("-", "")[:20]):
        found = await got(http, "/v1/tasks", id_prefix=prefix)
        assert [t["task_id"] for t in found["tasks"]] == [task_id], prefix
    assert (await got(http, "/v1/tasks", id_prefix="ffffffff"))["tasks"] == []
    for bad in ("0123456", "not-an-id", "0" * 37, "%_______"):
        assert (await refused(http, "/v1/tasks", id_prefix=bad))[0] == 422, bad


async def test_tasks_are_found_by_how_their_id_ends(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    task_id = str(await plane.queued_split())
    for suffix in (task_id, task_id[-8:], task_id[-13:].upper(), task_id.replace("-", "")[-20:]):
        found = await got(http, "/v1/tasks", id_suffix=suffix)
        assert [t["task_id"] for t in found["tasks"]] == [task_id], suffix
    assert (await got(http, "/v1/tasks", id_suffix="0" * 32))["tasks"] == []
    assert (await refused(http, "/v1/tasks", id_suffix=task_id[-7:]))[0] == 422


@pytest.mark.parametrize(
    ("path", "filters", "said"),
    [
        ("/v1/tasks", {"dag_name": "chian"}, "there is no DAG 'chian'"),
        ("/v1/tasks", {"job_name": "ingst"}, "no DAG has a job 'ingst'"),
        ("/v1/tasks", {"dag_name": "chain", "job_name": "ingst"}, "chain has no job 'ingst'"),
        ("/v1/backfills", {"dag_name": "chian"}, "there is no DAG 'chian'"),
        ("/v1/deploys", {"dag_name": "chian"}, "there is no DAG 'chian'"),
    ],
)
async def test_a_list_of_what_is_not_there_is_not_an_empty_one(
    http: httpx.AsyncClient, plane: ControlPlane, path: str, filters: dict[str, str], said: str
) -> None:
    await plane.queued_split()
    status, problem = await refused(http, path, **filters)
    assert (status, problem["code"], problem["detail"]) == (404, "not_found", said)
    assert "did you mean" in problem["hint"]
    known = {"dag_name": "chain", "job_name": "ingest"}
    found = await got(http, path, **{name: known[name] for name in filters})
    assert isinstance(found, dict)


async def test_tasks_are_listed_by_job(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    ingest = str(await plane.queued_ingest())
    found = await got(http, "/v1/tasks", dag_name="chain", job_name="ingest")
    assert [t["task_id"] for t in found["tasks"]] == [ingest]
    for limit in (0, 1001, "many"):
        assert (await refused(http, "/v1/tasks", limit=limit))[0] == 422


# --- logs


def keep_log(plane: ControlPlane, task_id: UUID, attempt: int, body: bytes) -> None:
    plane.dispatcher.store.put(
        log_uri(plane.dispatcher.grants.bucket, plane.dispatcher.org_id, task_id, attempt), body
    )


async def test_the_lines_of_an_attempt_can_be_read(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    task_id = await plane.queued_split()
    claimed = await plane.claimed(task_id)
    lines = [
        json.dumps({"level": "info", "event": "fetched", "blocks": 10}),
        "no json",
        "[1]",
        '{"event": NaN}',
        '{"event": "\\ud800"}',
        '{"a":' * 300 + "1" + "}" * 300,
    ]
    keep_log(plane, task_id, 1, "\n".join([*lines, "", ""]).encode() + b"\xff")
    await plane.complete(claimed, has_log=True)
    for query in ({}, {"attempt": 1}):
        log = await got(http, f"/v1/tasks/{task_id}/logs", **query)
        assert log["attempt"] == 1
        assert log["lines"][0] == {"level": "info", "event": "fetched", "blocks": 10}
        assert [line["event"] for line in log["lines"][1:]] == [*lines[1:], "\ufffd"]


async def test_a_log_of_any_length_is_answered_as_it_is_kept(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    task_id = await plane.queued_split()
    await plane.claimed(task_id)
    status, problem = await refused(http, f"/v1/tasks/{task_id}/log-file")
    assert (status, "still runs" in problem["hint"]) == (404, True)
    body = b'{"event": "said"}\n' * (MAX_BYTES // 10)
    keep_log(plane, task_id, 1, body)
    answer = await http.get(f"/v1/tasks/{task_id}/log-file", params={"attempt": 1})
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-length"] == str(len(body))
    assert answer.content == body
    assert (await refused(http, f"/v1/tasks/{task_id}/log-file", attempt=2))[0] == 404


async def test_an_attempt_without_a_log_says_which_have_one(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    task_id = await plane.queued_split()
    status, problem = await refused(http, f"/v1/tasks/{task_id}/logs")
    assert (status, "has not started" in problem["detail"]) == (404, True)
    first = await plane.claimed(task_id)
    _, problem = await refused(http, f"/v1/tasks/{task_id}/logs")
    assert "still runs" in problem["hint"]
    keep_log(plane, task_id, 1, b"{}")
    await plane.complete(first, status="Failed", error_message="x", has_log=True)
    plane.sql("UPDATE tasks SET status = 'Queued', next_retry_at = NULL")
    await plane.complete(await plane.claimed(task_id))
    _, problem = await refused(http, f"/v1/tasks/{task_id}/logs")
    assert problem["hint"] == "attempts with a log: 1"
    status, problem = await refused(http, f"/v1/tasks/{task_id}/logs", attempt=7)
    assert (status, "its newest is 2" in problem["detail"]) == (404, True)
    for bad in (0, -1, 2**31, "x"):
        assert (await refused(http, f"/v1/tasks/{task_id}/logs", attempt=bad))[0] == 422


async def test_a_huge_log_is_not_read_into_memory(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    task_id = await plane.queued_split()
    await plane.claimed(task_id)
    keep_log(plane, task_id, 1, b"x" * (MAX_BYTES + 1))
    status, problem = await refused(http, f"/v1/tasks/{task_id}/logs")
    assert (status, problem["code"]) == (409, "conflict")
    assert str(task_id) in problem["hint"]


# --- events


async def test_events_are_listed_newest_first(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    assert await got(http, "/v1/events") == {"events": []}
    await plane.deploy()
    await plane.trigger(0, 9)
    await plane.trigger(10, 19)
    found = (await got(http, "/v1/events", dataset="chain.request"))["events"]
    assert [event["partition_key"] for event in found] == ["10-19", "0-9"]
    assert [event["routed_at"] for event in found] == [None, None]
    await plane.settle()
    found = (await got(http, "/v1/events", limit=1))["events"]
    assert [event["partition_key"] for event in found] == ["10-19"]
    assert found[0]["routed_at"] is not None
    assert (await got(http, "/v1/events", dataset="blocks"))["events"] == []


async def test_events_of_what_is_not_there_are_refused(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    await plane.deploy()
    status, problem = await refused(http, "/v1/events", dataset="blokcs")
    assert (status, problem["code"]) == (404, "unknown_dataset")
    assert "blocks" in problem["hint"]
    assert (await refused(http, "/v1/events", dataset=""))[0] == 422
    assert (await refused(http, "/v1/events", dataset="\0"))[0] == 422


async def test_events_of_another_organisation_are_not_seen(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    await plane.deploy()
    await plane.trigger(0, 9)
    plane.sql("INSERT INTO orgs (slug, name) VALUES ('other', 'Other')")
    plane.sql("UPDATE events SET org_id = (SELECT id FROM orgs WHERE slug = 'other')")
    assert (await got(http, "/v1/events"))["events"] == []


# --- pause and resume


async def test_a_paused_job_starts_nothing_until_it_is_resumed(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    task_id = await plane.queued_split()
    paused = await http.post("/v1/jobs/chain/split/pause", json={"reason": "node is down"})
    assert paused.json()["changed"] is True
    assert paused.json()["holds"][0]["reason"] == "node is down"
    assert (await plane.claim(task_id)).status == "NotClaimed"

    again = await http.post("/v1/jobs/chain/split/pause", json={"reason": "another"})
    assert (again.status_code, again.json()["changed"]) == (200, False)
    assert again.json()["holds"][0]["reason"] == "node is down"

    woken = plane.dispatcher.wake.subscribe()
    resumed = await http.post("/v1/jobs/chain/split/resume")
    assert (resumed.json()["changed"], resumed.json()["holds"]) == (True, [])
    assert woken.is_set()
    await plane.settle()
    assert plane.wake_ups() == [task_id]
    await plane.claimed(task_id)

    twice = await http.post("/v1/jobs/chain/split/resume")
    assert (twice.status_code, twice.json()["changed"]) == (200, False)


async def test_a_pause_needs_no_body_and_a_deploy_does_not_lift_it(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    await plane.deploy()
    assert (await http.post("/v1/jobs/chain/ingest/pause")).json()["changed"] is True
    await plane.deploy(DAG.replace("rpc_pool: demo", "rpc_pool: other"))
    (queue,) = (await got(http, "/v1/queues"))["queues"]
    assert (queue["job_name"], queue["holds"][0]["cause"]) == ("ingest", "user")
    # A job that a deploy removed can still be let go.
    without = DAG.replace("name: ingest", "name: fetch").replace("job: ingest", "job: fetch")
    await plane.deploy(without)
    assert (await http.post("/v1/jobs/chain/ingest/resume")).json()["changed"] is True


async def test_a_job_that_is_not_there_is_named_with_what_is(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    for path in ("/v1/jobs/chain/ingets/pause", "/v1/jobs/chain/ingets/resume"):
        problem = (await http.post(path)).json()
        assert (problem["code"], "trace deploy" in problem["hint"]) == ("not_found", True)
    await plane.deploy()
    for path in ("/v1/jobs/chain/ingets/pause", "/v1/jobs/chain/ingets/resume"):
        response = await http.post(path)
        assert response.status_code == 404
        assert "did you mean chain.ingest?" in response.json()["hint"]
        assert "chain.request, chain.split" in response.json()["hint"]


@pytest.mark.parametrize(
    "body",
    [{"reason": ""}, {"reason": "x" * 501}, {"reason": 5}, {"why": "x"}, [], {"reason": "a\0b"}],
)
async def test_a_reason_is_a_short_text(
    http: httpx.AsyncClient, plane: ControlPlane, body: Any
) -> None:
    await plane.deploy()
    response = await http.post("/v1/jobs/chain/split/pause", json=body)
    assert (response.status_code, response.json()["code"]) == (422, "bad_input")
    assert plane.sql("SELECT * FROM job_holds") == []


async def test_a_paused_source_emits_nothing(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    await plane.deploy()
    await http.post("/v1/jobs/chain/request/pause")
    response = await http.post("/v1/sources/chain/request/trigger", json={"start": 0, "end": 1})
    assert (response.status_code, response.json()["code"]) == (409, "job_on_hold")
    assert response.json()["hint"] == "trace resume chain.request"


# --- queues


async def test_an_idle_instance_has_no_queues(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    assert await got(http, "/v1/queues") == {
        "queues": [],
        "workers": [],
        "dead_letters": 0,
    }
    await plane.deploy()
    assert (await got(http, "/v1/queues"))["queues"] == []


async def test_queues_count_what_waits_and_runs(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    await plane.deploy()
    ready = tasks_made(plane, "ingest", 5, queued_at="clock_timestamp() - interval '90 s'")
    tasks_made(plane, "ingest", 2, pending_backpressure="true")
    tasks_made(plane, "ingest", 3, status="'Failed'", next_retry_at="clock_timestamp()")
    tasks_made(plane, "ingest", 4, status="'Failed'")
    tasks_made(plane, "ingest", 4, status="'Completed'")
    await plane.claimed(ready[0], "w")
    worker(plane, "w", slots=4)
    worker(plane, "gone", slots=4, age_s=60)
    found = await got(http, "/v1/queues")
    (queue,) = found["queues"]
    assert {k: queue[k] for k in ("runtime", "dag_name", "job_name", "active", "priority")} == {
        "runtime": "ecs_platform",
        "dag_name": "chain",
        "job_name": "ingest",
        "active": True,
        "priority": "normal",
    }
    counts = {k: queue[k] for k in ("ready", "deferred", "running", "retrying")}
    assert counts == {"ready": 4, "deferred": 2, "running": 1, "retrying": 3}
    assert 90 <= queue["oldest_age_s"] < 150
    (alive,) = found["workers"]
    assert (alive["worker_id"], alive["slots"], alive["running"]) == ("w", 4, 1)


async def test_queues_show_limits_holds_and_pressure(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    limits = "\n    scaling: { max_concurrency: 3 }\n    backpressure: { max_queue_depth: 10 }"
    await plane.deploy(DAG.replace("rpc_pool: demo }", "rpc_pool: demo }" + limits))
    tasks_made(plane, "ingest", 1)
    plane.sql(
        "INSERT INTO job_pressure (job_id, from_rank, depth, age_s)"
        " SELECT id, 1, 12, 3 FROM jobs WHERE name = 'ingest'"
    )
    plane.sql(
        "INSERT INTO job_holds (org_id, dag_name, job_name, cause, from_rank, reason)"
        " SELECT org_id, dag_name, 'split', id::text, 2, 'ingest is behind'"
        " FROM jobs WHERE name = 'ingest'"
    )
    split, ingest = (await got(http, "/v1/queues"))["queues"]
    assert ingest["max_concurrency"] == 3
    pressure = ingest["pressure"]
    assert (pressure["mode"], pressure["depth"], pressure["max_depth"]) == ("pause", 12, 10)
    assert pressure["priorities"] == ["normal", "low"]
    (hold,) = split["holds"]
    assert (hold["cause"], hold["priorities"]) == ("chain.ingest", ["low"])


async def test_queues_of_another_organisation_are_not_seen(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    await plane.queued_split()
    plane.sql("INSERT INTO orgs (slug, name) VALUES ('other', 'Other')")
    plane.sql("UPDATE jobs SET org_id = (SELECT id FROM orgs WHERE slug = 'other')")
    assert (await got(http, "/v1/queues"))["queues"] == []


# --- health


def rule(health: dict[str, Any], code: str) -> dict[str, Any]:
    (found,) = (rule for rule in health["rules"] if rule["code"] == code)
    return dict(found)


async def test_a_quiet_instance_is_healthy(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    await plane.deploy()
    health = await got(http, "/v1/health")
    assert health["firing"] is False
    assert [rule["code"] for rule in health["rules"]] == [
        "queue_depth", "failure_rate", "source_heartbeat", "workers_at_capacity",
        "dataset_freshness", "database_locks", "outages", "alerts",
    ]  # fmt: skip


async def test_a_deep_queue_fires(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    await plane.deploy()
    worker(plane)
    tasks_made(plane, "split", 600)
    tasks_made(plane, "ingest", 400)
    found = rule(await got(http, "/v1/health"), "queue_depth")
    assert (found["firing"], found["value"], found["limit"]) == (False, 1000, 1000)
    tasks_made(plane, "ingest", 1)
    found = rule(await got(http, "/v1/health"), "queue_depth")
    assert (found["firing"], found["text"]) == (True, "1,001 tasks ready for ecs_platform")


async def test_failures_fire_only_when_there_are_enough_to_judge(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    await plane.deploy()
    now = "clock_timestamp()"
    tasks_made(plane, "ingest", 2, status="'Failed'", completed_at=now)
    tasks_made(plane, "ingest", 17, status="'Completed'", completed_at=now)
    # These do not count: they may still succeed, or are long gone.
    tasks_made(plane, "ingest", 50, status="'Failed'", completed_at=now, next_retry_at=now)
    tasks_made(plane, "ingest", 50, status="'Failed'", completed_at=f"{now} - interval '16 min'")
    found = rule(await got(http, "/v1/health"), "failure_rate")
    assert (found["firing"], "too few" in found["text"]) == (False, True)
    tasks_made(plane, "ingest", 1, status="'Completed'", completed_at=now)
    found = rule(await got(http, "/v1/health"), "failure_rate")
    assert (found["firing"], found["value"]) == (True, 0.1)
    tasks_made(plane, "ingest", 20, status="'Completed'", completed_at=now)
    found = rule(await got(http, "/v1/health"), "failure_rate")
    assert (found["firing"], found["value"]) == (False, 0.05)


async def test_a_silent_source_fires(http: httpx.AsyncClient, plane: ControlPlane) -> None:
    task_id = await plane.queued_split()
    await plane.claimed(task_id)
    plane.sql("UPDATE jobs SET activation = 'source' WHERE name = 'split'")
    found = rule(await got(http, "/v1/health"), "source_heartbeat")
    assert (found["firing"], found["value"] < 60) == (False, True)
    # A lease of 30 s that ended 100 s ago: 130 s of silence.
    plane.sql("UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '100 s'")
    found = rule(await got(http, "/v1/health"), "source_heartbeat")
    assert (found["firing"], 130 <= found["value"] < 180) == (True, True)
    assert "chain.split" in found["text"]


async def test_full_or_absent_workers_fire_while_tasks_wait(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    await plane.deploy()
    worker(plane, "w", slots=1)
    (waits,) = tasks_made(plane, "split", 1)
    assert rule(await got(http, "/v1/health"), "workers_at_capacity")["firing"] is False
    # Alive, and without a way to its queue.
    plane.sql("UPDATE workers SET polled_s = 31")
    found = rule(await got(http, "/v1/health"), "workers_at_capacity")
    assert (found["firing"], "1 of 1 worker cannot poll" in found["text"]) == (True, True)
    plane.sql("UPDATE workers SET polled_s = 0")
    await plane.claimed(waits, "w")
    assert rule(await got(http, "/v1/health"), "workers_at_capacity")["firing"] is False
    tasks_made(plane, "split", 2)
    found = rule(await got(http, "/v1/health"), "workers_at_capacity")
    assert (found["firing"], found["value"]) == (True, 2)
    assert "its worker is full" in found["text"]
    plane.sql("DELETE FROM workers")
    assert "no worker is alive" in (await got(http, "/v1/health"))["rules"][3]["text"]
    # What is on hold waits for something else than a worker.
    await http.post("/v1/jobs/chain/split/pause")
    assert rule(await got(http, "/v1/health"), "workers_at_capacity")["firing"] is False


# --- what a DAG does


async def test_a_dag_says_whether_events_are_still_to_become_tasks(
    http: httpx.AsyncClient, plane: ControlPlane
) -> None:
    await plane.deploy()
    await plane.deploy(DAG.replace("name: chain", "name: other").split("publish:")[0])
    assert (await got(http, "/v1/dags/chain"))["routing"] is False
    await plane.trigger(0, 9)
    status = await got(http, "/v1/dags/chain")
    assert status["routing"] is True
    assert (await got(http, "/v1/dags/other"))["routing"] is False
    await plane.settle()
    after = await got(http, "/v1/dags/chain", since=status["as_of"])
    assert (after["routing"], after["jobs"][1]["counts"]) == (False, {"Queued": 1})


@pytest.mark.parametrize(
    ("since", "status"),
    [
        ("2026-01-01T00:00:00Z", 200),
        ("0001-01-01T00:00:00Z", 200),
        ("9999-12-31T23:59:59Z", 200),
        ("2026-01-01T00:00:00", 422),
        ("soon", 422),
    ],
)
async def test_since_is_a_moment(
    http: httpx.AsyncClient, plane: ControlPlane, since: str, status: int
) -> None:
    await plane.deploy()
    tasks_made(plane, "ingest", 1, status="'Completed'")
    response = await http.get("/v1/dags/chain", params={"since": since})
    assert response.status_code == status, response.text
    if status == 200:
        counted = response.json()["jobs"][2]["counts"]
        assert counted == ({} if since.startswith("9999") else {"Completed": 1})


# --- cost


LOOKS: dict[str, dict[str, Any]] = {
    "queues": {},
    "workers": {"within_s": 20.0},
    "recent_ends": {"within_s": 900.0, "newest": 2000},
    "source_silences": {},
    "place": {
        "runtime": "ecs_platform",
        "job_id": uuid4(),
        "priority": 1,
        "queued_at": datetime.now(UTC),
        "task_id": uuid4(),
    },
    "slot_holders": {"job_id": uuid4(), "limit": 3},
    "newest_failure": {"job_id": uuid4(), "newest": 2000},
}


async def test_what_is_alive_is_found_without_reading_history(plane: ControlPlane) -> None:
    await plane.deploy()
    tasks_made(plane, "split", 50)
    await plane.claimed(tasks_made(plane, "split", 1)[0], "w")
    tasks_made(plane, "ingest", 40_000, status="'Completed'", completed_at="clock_timestamp()")
    tasks_made(plane, "split", 3_000, status="'Failed'", completed_at="clock_timestamp()")
    file = Path(overview.__file__).with_suffix(".sql")
    queries = {name: sql for name, _, sql in split_queries(file.read_text())}
    for known in (False, True):
        if known:
            with psycopg.connect(plane.owner_dsn, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE tasks")
        for name, given in LOOKS.items():
            plan = explained(plane, queries[name], {"org_id": plane.dispatcher.org_id, **given})
            assert not any(
                node["Node Type"] == "Seq Scan" and node["Relation Name"] == "tasks"
                for node in nodes(plan)
            ), (name, known)
            pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            # One for each of the newest tasks that is looked at, and a little more.
            assert pages < 2_500, (name, known, pages)


def explained(plane: ControlPlane, sql: str, given: dict[str, Any]) -> dict[str, Any]:
    with psycopg.connect(plane.owner_dsn) as connection:
        row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", given).fetchone()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(found for child in plan.get("Plans", []) for found in nodes(child))]
