"""The connection ends after the commit and before the reply, at every endpoint that writes.

The client cannot know what became of its request, so it repeats it: nothing is done twice and
nothing is lost. Only a claim cannot be repeated: its attempt's lease runs out and the task runs
again, at the cost of one attempt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from fastapi.routing import APIRoute
from psycopg.rows import dict_row

from tests.support.control_plane import HOOK_SECRET, SECRETS, WORKER_TOKEN, stage
from tests.support.cutting_proxy import CuttingProxy, cutting_proxy
from tests.support.engine_stack import dag, engine, job
from tests.support.served_dispatcher import ServedDispatcher
from tests.support.stack import wait_for
from trace_platform.dispatcher.api.create_app import create_app
from trace_platform.dispatcher.tasks.complete_task import complete_task
from trace_platform.domain.prefix import generation_prefix, scratch_prefix
from trace_platform.domain.webhook_signature import sign, signing_key
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.wire.task import (
    ClaimBatchResponse,
    Claimed,
    CompleteRequest,
    OutputCommit,
)

pytestmark = pytest.mark.timeout(400)

DAG = dag("lossy", [job("echo", "no_op", {}, "    outputs: [rows, marks]\n")])


@dataclass
class Client:
    """Talks to a dispatcher through a proxy that loses the first reply to each path."""

    dispatcher: ServedDispatcher
    proxy: CuttingProxy
    http: httpx.Client
    owner_dsn: str
    store: LocalStore
    data_dsn: str

    def lose_and_repeat(
        self, path: str, body: dict[str, Any] | None = None, status: int = 200, **headers: str
    ) -> Any:
        """What the second try is answered."""
        with pytest.raises(httpx.TransportError):
            self.http.post(path, json=body, headers=headers)
        assert self.proxy.lost(path) == 1
        answer = self.http.post(path, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.owner_dsn, row_factory=dict_row) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def count(self, table: str, where: str = "true") -> int:
        (row,) = self.sql(f"SELECT count(*) AS n FROM {table} WHERE {where}")
        return int(row["n"])

    def queued(self, number: int = 1) -> list[UUID]:
        """So many tasks, of ten blocks each, announced."""
        for n in range(number):
            self.dispatcher.run(
                lambda plane, n=n: plane.trigger(10 * n, 10 * n + 9, "lossy", "source")
            )
        self.await_tasks("Queued", number)
        wait_for("their wake-ups", lambda: self.count("outbox") == 0, 20)
        return [row["id"] for row in self.sql("SELECT id FROM tasks ORDER BY id")]

    def claimed(self, number: int = 1) -> list[Claimed]:
        return [
            self.dispatcher.run(lambda plane, task_id=task_id: plane.claimed(task_id))
            for task_id in self.queued(number)
        ]

    def await_tasks(self, status: str, number: int) -> None:
        where = f"status = '{status}'"
        wait_for(f"{number} {status}", lambda: self.count("tasks", where) == number, 20)

    def expire_leases(self) -> None:
        """Their workers never heard of them: nobody beats."""
        self.sql(
            "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'"
            " WHERE status = 'Running'"
        )

    def outcomes(self) -> list[list[str]]:
        rows = self.sql(
            "SELECT array_agg(outcome ORDER BY attempt) AS outcomes FROM task_attempts"
            " GROUP BY task_id ORDER BY task_id"
        )
        return [row["outcomes"] for row in rows]


@pytest.fixture
def client(state_dsns: Any, data_dsns: Any, tmp_path: Path) -> Iterator[Client]:
    dispatcher = ServedDispatcher(state_dsns, tmp_path, data_dsns.janitor)
    dispatcher.start()
    seen: set[str] = set()

    def first_time(path: str) -> bool:
        new = path not in seen
        seen.add(path)
        return new

    headers = {
        "Authorization": f"Bearer {SECRETS.user_token}",
        "X-Trace-Worker-Token": WORKER_TOKEN,
    }
    with cutting_proxy([dispatcher.port], None, first_time) as proxy:
        url = f"http://localhost:{proxy.port}"
        with httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False) as http:
            store = LocalStore(str(tmp_path))
            made = Client(dispatcher, proxy, http, state_dsns.owner, store, data_dsns.owner)
            dispatcher.run(lambda plane: plane.deploy(DAG))
            yield made
    dispatcher.stop()


# What is proven of each endpoint, by its path.
CASES: dict[str, Callable[[Client], None]] = {}


def proves(path: str) -> Callable[[Callable[[Client], None]], Callable[[Client], None]]:
    def note(case: Callable[[Client], None]) -> Callable[[Client], None]:
        CASES[path] = case
        return case

    return note


@proves("/internal/task-claim")
def a_claim_costs_one_attempt(client: Client) -> None:
    (task_id,) = client.queued()
    body = {"task_id": str(task_id), "worker_id": "w"}
    assert client.lose_and_repeat("/internal/task-claim", body) == {
        "status": "NotClaimed",
        "reason": "AlreadyRunning",
    }
    client.expire_leases()
    client.await_tasks("Queued", 1)
    claimed = Claimed.model_validate(client.http.post("/internal/task-claim", json=body).json())
    complete(client, claimed)
    assert client.outcomes() == [["LeaseExpired", "Completed"]]


@proves("/internal/task-claims")
def a_batch_of_claims_costs_each_one_attempt(client: Client) -> None:
    client.queued(3)
    body = {"runtime": "ecs_platform", "worker_id": "w", "max_tasks": 2}
    answer = ClaimBatchResponse.model_validate(
        client.lose_and_repeat("/internal/task-claims", body)
    )
    (third,) = answer.claimed
    complete(client, third)
    client.expire_leases()
    client.await_tasks("Queued", 2)
    answer = ClaimBatchResponse.model_validate(
        client.http.post("/internal/task-claims", json=body).json()
    )
    for claimed in answer.claimed:
        complete(client, claimed)
    lost = ["LeaseExpired", "Completed"]
    assert sorted(client.outcomes()) == [["Completed"], lost, lost]


@proves("/internal/task-heartbeats")
def a_batch_of_heartbeats_may_be_repeated(client: Client) -> None:
    attempts = client.claimed(2)
    client.expire_leases()
    body = {
        "worker_id": "w",
        "runtime": "ecs_platform",
        "slots": 2,
        "beats": [fence(attempt) for attempt in attempts],
    }
    answer = client.lose_and_repeat("/internal/task-heartbeats", body)
    assert all(result["lease"]["directive"] == "continue" for result in answer["results"])
    alive = "status = 'Running' AND attempt = 1 AND lease_expires_at > clock_timestamp()"
    assert client.count("tasks", alive) == 2
    assert client.count("workers") == 1


@proves("/internal/task-completions")
def a_batch_of_completions_may_be_repeated(client: Client) -> None:
    first, second, third = client.claimed(3)
    body = {
        "completions": [
            fence(first) | {"status": "Completed", "outputs": [output(client, first)]},
            fence(second) | {"status": "Completed", "events": [mark(second)]},
            fence(third) | {"status": "Failed", "retryable": False, "error_code": "bad_input"},
        ]
    }
    answer = client.lose_and_repeat("/internal/task-completions", body)
    ends = [result["completion"]["status"] for result in answer["results"]]
    assert ends == ["Completed", "Completed", "Failed"]
    assert client.outcomes() == [["Completed"], ["Completed"], ["Failed"]]
    assert client.count("partition_versions") == 1
    assert client.count("events", "producer_task_id IS NOT NULL") == 2


@proves("/v1/task/heartbeat")
def a_heartbeat_may_be_repeated(client: Client) -> None:
    (attempt,) = client.claimed()
    client.expire_leases()
    answer = client.lose_and_repeat("/v1/task/heartbeat", fence(attempt), **token(attempt))
    assert answer["directive"] == "continue"
    assert client.count("tasks", "status = 'Running' AND lease_expires_at > clock_timestamp()") == 1


@proves("/v1/task/events")
def events_of_an_attempt_may_be_repeated(client: Client) -> None:
    (attempt,) = client.claimed()
    body = fence(attempt) | {"events": [mark(attempt)], "invalidations": [invalid(attempt)]}
    answer = client.lose_and_repeat("/v1/task/events", body, **token(attempt))
    assert answer == {"accepted": 0}, "the first try had it recorded"
    assert client.count("events", "producer_task_id IS NOT NULL") == 1
    assert client.count("data_invalidations") == 1


@proves("/v1/task/state")
def what_an_operator_keeps_may_be_asked_again(client: Client) -> None:
    (attempt,) = client.claimed()
    kept = {"seen": ["a.csv"], "cursor": 7}
    body = fence(attempt) | {"events": [mark(attempt)], "state": kept}
    client.lose_and_repeat("/v1/task/events", body, **token(attempt))
    answer = client.lose_and_repeat("/v1/task/state", fence(attempt), **token(attempt))
    assert answer == {"state": kept}
    assert client.count("operator_state") == 2


@proves("/v1/task/complete")
def a_completion_may_be_repeated(client: Client) -> None:
    (attempt,) = client.claimed()
    body = fence(attempt) | {
        "status": "Completed",
        "outputs": [output(client, attempt)],
        "events": [mark(attempt)],
    }
    answer = client.lose_and_repeat("/v1/task/complete", body, **token(attempt))
    assert answer == {"status": "Completed"}
    assert client.outcomes() == [["Completed"]]
    assert client.count("partition_versions") == 1
    assert client.count("events", "producer_task_id IS NOT NULL") == 2


@proves("/v1/task/buffer-publish")
def a_batch_of_a_buffer_may_be_repeated(client: Client) -> None:
    (attempt,) = client.claimed()
    target = attempt.task.outputs[0]
    place = scratch_prefix(
        "trace-scratch", target.dataset_uuid, attempt.task.task_id, attempt.attempt
    )
    body = fence(attempt) | {
        "dataset_uuid": str(target.dataset_uuid),
        "dataset_version": str(target.dataset_version),
        "batch_uri": place + "batch.arrow",
        "record_count": 1,
    }
    answer = client.lose_and_repeat("/v1/task/buffer-publish", body, **token(attempt))
    assert answer == {"accepted": False}, "the first try had it published"
    assert client.count("buffer_publishes") == 1
    wait_for("the sink's message", lambda: client.count("outbox") == 0, 20)
    assert client.count("queue.messages", "queue = 'buffer'") == 1


@proves("/v1/events")
def events_of_a_source_may_be_repeated(client: Client) -> None:
    events = [{"cursor": cursor} for cursor in range(5)]
    body = {"dataset": "lossy.source", "events": events}
    assert client.lose_and_repeat("/v1/events", body) == {"accepted": 0}
    client.await_tasks("Queued", 5)
    assert client.count("events") == client.count("tasks") == 5


@proves("/v1/sources/{dag_name}/{job_name}/trigger")
def a_trigger_may_be_repeated(client: Client) -> None:
    path = "/v1/sources/lossy/source/trigger"
    assert client.lose_and_repeat(path, {"start": 0, "end": 9}) == {"accepted": 0}
    client.await_tasks("Queued", 1)
    assert client.count("events") == client.count("tasks") == 1


@proves("/v1/dags")
def a_deploy_may_be_repeated(client: Client) -> None:
    yaml = DAG.replace("name: lossy", "name: second")
    assert client.lose_and_repeat("/v1/dags", {"yaml": yaml})["new"] is False
    assert client.count("dag_versions", "dag_name = 'second'") == 1
    assert client.count("jobs", "dag_name = 'second'") == 2


@proves("/v1/plans")
def a_plan_may_be_repeated(client: Client) -> None:
    yaml = DAG.replace("name: lossy", "name: second")
    jobs = client.lose_and_repeat("/v1/plans", {"yaml": yaml})["jobs"]
    assert {job["action"] for job in jobs} == {"added"}
    assert client.count("dag_versions", "dag_name = 'second'") == 0


@proves("/v1/dags/{dag_name}/rollback")
def a_rollback_may_be_repeated(client: Client) -> None:
    (first,) = client.sql("SELECT dag_version_id AS id FROM active_dags")
    changes = [DAG.replace("no_op", "no_op\n    priority: high"), DAG.replace("marks", "signs")]
    for yaml in changes:
        client.dispatcher.run(lambda plane, yaml=yaml: plane.deploy(yaml))
    (last,) = client.sql("SELECT dag_version_id AS id FROM active_dags")
    body = {"instead_of": str(last["id"])}
    answer = client.lose_and_repeat("/v1/dags/lossy/rollback", body)
    (active,) = client.sql("SELECT dag_version_id AS id FROM active_dags")
    assert answer["dag_version"] == str(active["id"])
    # Back by one version, not by two.
    assert active["id"] != first["id"]
    assert client.count("deploys", "kind = 'rollback'") == 1


@proves("/v1/dags/{dag_name}/removal")
def a_removal_may_be_repeated(client: Client) -> None:
    answer = client.lose_and_repeat("/v1/dags/lossy/removal", {}, status=404)
    assert "removed" in answer["detail"], "the first try had it removed"
    assert client.count("active_dags") == 0
    assert client.count("deploys", "kind = 'removal'") == 1


@proves("/v1/tasks/{task_id}/cancel")
def a_cancellation_may_be_repeated(client: Client) -> None:
    waiting, running = client.queued(2)
    attempt = client.dispatcher.run(lambda plane: plane.claimed(running))
    assert client.lose_and_repeat(f"/v1/tasks/{running}/cancel") == {"status": "Running"}
    # What is over cannot be canceled again, and the answer says how it ended.
    answer = client.lose_and_repeat(f"/v1/tasks/{waiting}/cancel", status=409)
    assert answer["detail"].endswith("Canceled")
    beat = client.dispatcher.run(lambda plane: plane.beat(attempt))
    assert beat.directive == "cancel"


@proves("/v1/tasks/{task_id}/retry")
def a_retry_may_be_repeated(client: Client) -> None:
    (attempt,) = client.claimed()
    task_id = attempt.task.task_id
    client.dispatcher.run(lambda plane: plane.complete(attempt, status="Failed", retryable=False))
    client.sql("DELETE FROM queue.messages")
    answer = client.lose_and_repeat(f"/v1/tasks/{task_id}/retry", status=409)
    assert answer["detail"].endswith("Queued")
    wait_for("its wake-up", lambda: client.count("outbox") == 0, 20)
    assert client.count("queue.messages") == 1
    complete(client, client.dispatcher.run(lambda plane: plane.claimed(task_id)))
    assert client.outcomes() == [["Failed", "Completed"]]


@proves("/v1/tasks/cancel")
def a_cancellation_of_many_may_be_repeated(client: Client) -> None:
    client.queued(2)
    answer = client.lose_and_repeat("/v1/tasks/cancel", {"dag_name": "lossy"})
    assert answer["tasks"] == 0, "the first try had them canceled"
    assert client.count("tasks", "status = 'Canceled'") == 2


@proves("/v1/tasks/retry")
def a_retry_of_many_may_be_repeated(client: Client) -> None:
    for attempt in client.claimed(2):
        client.dispatcher.run(
            lambda plane, attempt=attempt: plane.complete(attempt, status="Failed", retryable=False)
        )
    client.sql("DELETE FROM queue.messages")
    answer = client.lose_and_repeat("/v1/tasks/retry", {"job_name": "echo"})
    assert answer["tasks"] == 0, "the first try had them queued"
    wait_for("their wake-ups", lambda: client.count("outbox") == 0, 20)
    assert client.count("queue.messages") == client.count("tasks", "status = 'Queued'") == 2


@proves("/v1/jobs/{dag_name}/{job_name}/pause")
def a_pause_may_be_repeated(client: Client) -> None:
    (task_id,) = client.queued()
    client.lose_and_repeat("/v1/jobs/lossy/echo/pause")
    assert client.count("job_holds") == 1
    refused = client.dispatcher.run(lambda plane: plane.claim(task_id))
    assert refused.reason == "Held"


@proves("/v1/jobs/{dag_name}/{job_name}/resume")
def a_resume_may_be_repeated(client: Client) -> None:
    (task_id,) = client.queued()
    client.lose_and_repeat("/v1/jobs/lossy/echo/pause")
    client.lose_and_repeat("/v1/jobs/lossy/echo/resume")
    assert client.count("job_holds") == 0
    complete(client, client.dispatcher.run(lambda plane: plane.claimed(task_id)))
    assert client.outcomes() == [["Completed"]]


@proves("/v1/invalidations")
def an_invalidation_may_be_repeated(client: Client) -> None:
    complete(client, *client.claimed())
    request_id = str(uuid4())
    body = {
        "dataset": "lossy.source",
        "scope": "row_range",
        "start": 0,
        "end": 9,
        "reason": "wrong",
        "request_id": request_id,
    }
    answer = client.lose_and_repeat("/v1/invalidations", body)
    assert (answer["invalidation_id"], answer["new"]) == (request_id, False)
    client.await_tasks("Queued", 1)
    assert client.count("data_invalidations") == 1
    assert client.count("tasks") == 2


@proves("/v1/backfills/plan")
def a_plan_of_a_backfill_changes_nothing(client: Client) -> None:
    complete(client, *client.claimed())
    body = {"dag_name": "lossy", "job_name": "echo", "start": 0, "end": 9, "force": True}
    assert client.lose_and_repeat("/v1/backfills/plan", body)["tasks"] == 1
    assert (client.count("backfills"), client.count("tasks")) == (0, 1)


def backfill(client: Client, **fields: Any) -> tuple[str, Any]:
    """Its id, and the answer to the second try."""
    for attempt in client.claimed(3):
        complete(client, attempt)
    request_id = str(uuid4())
    body = {"dag_name": "lossy", "job_name": "echo", "start": 0, "end": 29, "force": True}
    body |= {"request_id": request_id, "max_in_flight": 1}
    return request_id, client.lose_and_repeat("/v1/backfills", body | fields)


@proves("/v1/backfills")
def a_backfill_may_be_repeated(client: Client) -> None:
    backfill_id, answer = backfill(client)
    assert (answer["backfill"]["backfill_id"], answer["new"]) == (backfill_id, False)
    assert client.count("backfills") == 1
    assert client.count("tasks", f"backfill_id = '{backfill_id}'") == 1


@proves("/v1/backfills/{backfill_id}/pause")
def a_pause_of_a_backfill_may_be_repeated(client: Client) -> None:
    backfill_id, _ = backfill(client)
    answer = client.lose_and_repeat(f"/v1/backfills/{backfill_id}/pause")
    assert (answer["changed"], answer["backfill"]["status"]) == (False, "Paused")


@proves("/v1/backfills/{backfill_id}/resume")
def a_resume_of_a_backfill_may_be_repeated(client: Client) -> None:
    backfill_id, _ = backfill(client)
    client.lose_and_repeat(f"/v1/backfills/{backfill_id}/pause")
    answer = client.lose_and_repeat(f"/v1/backfills/{backfill_id}/resume")
    assert (answer["changed"], answer["backfill"]["status"]) == (False, "Running")
    assert client.count("tasks", f"backfill_id = '{backfill_id}'") == 1


@proves("/v1/backfills/{backfill_id}/cancel")
def a_cancellation_of_a_backfill_may_be_repeated(client: Client) -> None:
    backfill_id, _ = backfill(client)
    answer = client.lose_and_repeat(f"/v1/backfills/{backfill_id}/cancel")
    assert (answer["changed"], answer["backfill"]["status"]) == (False, "Canceled")
    assert client.count("tasks", f"backfill_id = '{backfill_id}' AND status = 'Canceled'") == 1


@proves("/internal/schedules/tick")
def ticks_of_a_schedule_may_be_repeated(client: Client) -> None:
    yaml = (
        "name: timed\njobs:\n  - { name: clock, activation: source,"
        ' source: { kind: cron, schedule: "0 3 * * *" } }\n'
    )
    client.dispatcher.run(lambda plane: plane.deploy(yaml))
    wait_for("the schedule", lambda: client.count("source_ticks") == 1, 20)
    client.sql("UPDATE active_dags SET activated_at = activated_at - interval '1 hour'")
    client.sql("UPDATE source_ticks SET last_tick = last_tick - interval '1 hour'")
    (row,) = client.sql("SELECT clock_timestamp() AS now")
    body = {"dag_name": "timed", "job_name": "clock", "ticks": [row["now"].isoformat()]}
    shown = {"X-Trace-Service-Token": SECRETS.service_token}
    assert client.lose_and_repeat("/internal/schedules/tick", body, **shown) == {"accepted": 0}
    assert client.count("events") == 1
    assert client.sql("SELECT last_tick FROM source_ticks") == [{"last_tick": row["now"]}]


@proves("/v1/hooks/{dag_name}/{job_name}")
def a_delivery_may_be_repeated(client: Client) -> None:
    yaml = (
        "name: hooked\njobs:\n  - { name: calls, activation: source,"
        " source: { kind: webhook, secret: hook_key } }\n"
    )
    client.dispatcher.run(lambda plane: plane.deploy(yaml))
    (row,) = client.sql("SELECT extract(epoch FROM clock_timestamp())::bigint AS now")
    # As the client writes it.
    body = httpx.Request("POST", "http://localhost", json={"n": 1}).content
    signed = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(row["now"]),
        "webhook-signature": sign(signing_key(HOOK_SECRET), "msg_1", row["now"], body),
    }
    answer = client.lose_and_repeat("/v1/hooks/hooked/calls", {"n": 1}, **signed)
    assert answer == {"accepted": False}, "the first try had it committed"
    assert client.count("partition_versions") == client.count("events") == 1


@proves("/v1/datasets/{dataset}/purge")
def a_purge_may_be_repeated(client: Client) -> None:
    echo = "dag_name = 'lossy' AND job_name = 'echo' AND output_index = 0"
    (old,) = client.sql(f"SELECT org_id, uuid, current_version FROM datasets WHERE {echo}")
    version = old["current_version"]
    place = generation_prefix("trace-data", old["org_id"], old["uuid"], version)
    client.store.put(f"{place}part", b"rows")
    yaml = DAG.replace("outputs: [rows, marks]", "outputs: [rows, marks, more]")
    client.dispatcher.run(lambda plane: plane.deploy(yaml))
    body = {"versions": [str(version)]}
    answer = client.lose_and_repeat("/v1/datasets/lossy.echo/purge", body)
    assert answer == {"dataset": "lossy.echo.0", "purged": [str(version)], "objects": 0}
    assert list(client.store.list(place)) == [], "the first try had it deleted"
    assert client.count("generations", "purged_at IS NOT NULL AND cleaned_at IS NOT NULL") == 1


@proves("/v1/garbage")
def a_collection_of_garbage_may_be_repeated(client: Client) -> None:
    (attempt,) = client.claimed()
    place = attempt.task.outputs[0].prefix
    client.store.put(f"{place}half.parquet", b"rows")
    ended = CompleteRequest(**fence(attempt), status="Failed", retryable=False)
    client.dispatcher.run(lambda plane: complete_task(plane.dispatcher.completing, ended))
    client.sql("UPDATE leftovers SET ended_at = ended_at - interval '1 day'")
    assert client.lose_and_repeat("/v1/garbage", {})["items"] == []
    assert list(client.store.list(place)) == [], "the first try had it deleted"
    assert client.count("leftovers") == 0


@proves("/v1/alerts/acknowledge")
def alerts_may_be_acknowledged_again(client: Client) -> None:
    with psycopg.connect(client.data_dsn) as connection:
        row = connection.execute(
            "INSERT INTO alert_events (severity, code, message, dedupe_key)"
            " VALUES ('critical', 'deep_reorg', 'a reorg of depth 99', 'once') RETURNING id"
        ).fetchone()
    assert row is not None
    body = {"alert_ids": [str(row[0])], "by": "ana"}
    answer = client.lose_and_repeat("/v1/alerts/acknowledge", body)
    assert answer["acknowledged"] == 0, "the first try had it acknowledged"
    assert answer["alerts"][0]["acknowledged_by"] == "ana"


@proves("/v1/dead-letters/resend")
def dead_letters_may_be_sent_again_twice(client: Client) -> None:
    client.lose_and_repeat("/v1/dead-letters/resend", {"ids": [dead_letter(client)]}, status=404)
    assert client.count("queue.dead_letters") == 0
    assert client.count("queue.messages", "queue = 'buffer'") == 1


@proves("/v1/dead-letters/drop")
def dead_letters_may_be_dropped_twice(client: Client) -> None:
    client.lose_and_repeat("/v1/dead-letters/drop", {"ids": [dead_letter(client)]}, status=404)
    assert client.count("queue.dead_letters") == client.count("queue.messages") == 0


@proves("/internal/worker-starts")
def a_worker_may_say_twice_that_it_started(client: Client) -> None:
    (task_id,) = client.queued()
    client.dispatcher.run(lambda plane: plane.claimed(task_id, "lite:here#1/7"))
    body = {"identity": "lite:here", "incarnation": 2}
    assert client.lose_and_repeat("/internal/worker-starts", body) == {"given_up": 0}
    assert client.outcomes() == [["LeaseExpired"]]


@proves("/internal/rpc/key-claims")
def a_claim_of_keys_may_be_repeated(client: Client) -> None:
    body = {"holder": "rpc-1", "keys": ["mainnet/a", "mainnet/b"], "lease_s": 60}
    shown = {"X-Trace-Service-Token": SECRETS.service_token}
    answer = client.lose_and_repeat("/internal/rpc/key-claims", body, **shown)
    assert answer == {"granted": ["mainnet/a", "mainnet/b"]}
    assert client.count("rpc_key_claims") == 2


@proves("/internal/datasets/resolve")
def datasets_may_be_resolved_again(client: Client) -> None:
    yaml = DAG + "publish:\n  lossy_rows: { from: { job: echo } }\n"
    client.dispatcher.run(lambda plane: plane.deploy(yaml))
    (attempt,) = client.claimed()
    commit = OutputCommit.model_validate(output(client, attempt))
    client.dispatcher.run(lambda plane: plane.complete(attempt, outputs=[commit]))
    shown = {"X-Trace-Service-Token": SECRETS.service_token}
    body = {"datasets": [{"name": "lossy_rows"}]}
    (found,) = client.lose_and_repeat("/internal/datasets/resolve", body, **shown)["datasets"]
    assert found["files"] == [commit.location + "rows_0_9.parquet"]
    assert client.count("partition_versions") == 1


@proves("/internal/queries")
def queries_may_be_put_on_record_again(client: Client) -> None:
    read = {"name": "rows", "dataset_uuid": str(uuid4()), "dataset_version": str(uuid4())}
    query = {
        "query_id": str(uuid4()),
        "caller": "ann",
        "kind": "user",
        "sql_sha256": "0" * 64,
        "format": "json",
        "datasets": [read],
        "pii": {"rows": ["email"]},
        "row_count": 1,
        "bytes": 10,
        "elapsed_ms": 1.5,
        "started_at": "2026-05-01T12:00:00Z",
    }
    shown = {"X-Trace-Service-Token": SECRETS.service_token}
    answer = client.lose_and_repeat("/internal/queries", {"queries": [query]}, **shown)
    assert answer == {"accepted": 0}, "the first try had it recorded"
    assert [client.count(t) for t in ("queries", "query_reads", "pii_access_log")] == [1, 1, 1]


ABI = {"name": "token", "chain_id": 1, "text": "event Sent(address indexed to, uint256 value)"}
PROXY = {"chain_id": 1, "address": "0x" + "bb" * 20, "from_block": 5}


@proves("/v1/abis")
def an_abi_may_be_added_again(client: Client) -> None:
    answer = client.lose_and_repeat("/v1/abis", ABI)
    assert (answer["new"], answer["redo"]) == (False, [])
    assert client.count("abi_versions") == 1


@proves("/v1/abis/{name}/removal")
def an_abi_that_is_removed_twice_is_not_there(client: Client) -> None:
    added = client.lose_and_repeat("/v1/abis", ABI)
    client.lose_and_repeat("/v1/abis/token/removal", {"version": added["version"]}, status=404)
    assert client.count("abi_versions", "removed_at IS NULL") == 0


@proves("/v1/abi-guesses")
def a_guess_may_be_asked_again(client: Client) -> None:
    answer = client.lose_and_repeat("/v1/abi-guesses", {"seen": [{"id": "0xa9059cbb"}]})
    assert "transfer" in str(answer)


@proves("/v1/abi-proxies")
def a_proxy_may_be_said_again(client: Client) -> None:
    body = PROXY | {"implementation": "0x" + "aa" * 20}
    assert client.lose_and_repeat("/v1/abi-proxies", body)["new"] is False
    assert client.count("abi_implementations") == 1


@proves("/v1/abi-proxies/removal")
def a_proxy_that_is_removed_twice_is_not_there(client: Client) -> None:
    a_proxy_may_be_said_again(client)
    client.lose_and_repeat("/v1/abi-proxies/removal", PROXY, status=404)
    assert client.count("abi_implementations", "removed_at IS NULL") == 0


@pytest.mark.parametrize("path", CASES)
def test_a_request_whose_reply_is_lost_is_done_once(client: Client, path: str) -> None:
    CASES[path](client)


def test_every_endpoint_that_writes_is_among_them(client: Client) -> None:
    app = create_app(client.dispatcher.plane.dispatcher)
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    writing = {route.path for route in routes if route.methods - {"GET", "HEAD", "OPTIONS"}}
    assert writing == set(CASES)


def dead_letter(client: Client) -> int:
    (row,) = client.sql(
        "INSERT INTO queue.dead_letters (id, queue, body, receive_count, sent_at)"
        " VALUES (7, 'buffer', '{}', 10, clock_timestamp()) RETURNING id"
    )
    return int(row["id"])


def fence(attempt: Claimed) -> dict[str, Any]:
    return {
        "task_id": str(attempt.task.task_id),
        "attempt": attempt.attempt,
        "lease_token": str(attempt.lease_token),
    }


def token(attempt: Claimed) -> dict[str, str]:
    shown = attempt.capability_token
    # In place of the user's token, which the client sends elsewhere.
    return {"X-Trace-Task-Capability": shown, "Authorization": f"Bearer {shown}"}


def output(client: Client, attempt: Claimed) -> dict[str, Any]:
    given = attempt.task.inputs[0]
    assert given.start is not None
    assert given.end is not None
    staged: OutputCommit = stage(client.store, attempt, 0, given.start, given.end)
    return staged.model_dump(mode="json")


def invalid(attempt: Claimed) -> dict[str, Any]:
    """A part of an output that the attempt rewrote."""
    target = attempt.task.outputs[0]
    return {
        "dataset_uuid": str(target.dataset_uuid),
        "dataset_version": str(target.dataset_version),
        "scope": "row_range",
        "start": 0,
        "end": 4,
        "reason": "rewritten",
    }


def mark(attempt: Claimed) -> dict[str, Any]:
    target = attempt.task.outputs[1]
    return {
        "dataset_uuid": str(target.dataset_uuid),
        "dataset_version": str(target.dataset_version),
        "cursor": 7,
    }


def complete(client: Client, attempt: Claimed) -> None:
    client.dispatcher.run(lambda plane: plane.complete(attempt))


@pytest.mark.parametrize("tasks", [16, pytest.param(2_000, marks=pytest.mark.long)])
def test_a_worker_that_loses_replies_finishes_every_task_once(
    state_dsns: Any, tmp_path: Path, tasks: int
) -> None:
    with engine(tmp_path, state_dsns) as stack:
        dispatcher = stack.dispatcher()
        with cutting_proxy([dispatcher.port], stack.tls, every_third()) as proxy:
            stack.worker(proxy.port, slots=8)
            stack.await_ready()
            config = {"starts": str(stack.starts_file)}
            work = job("work", "witness", config, "    heartbeat_timeout_seconds: 5\n")
            stack.deploy(dispatcher.port, dag("lossy", [work], "max_attempts: 20"))
            stack.emit(dispatcher.port, "lossy.source", range(tasks))
            stack.wait_for_completed(tasks, 280)
            claims = proxy.replies("/internal/task-claims")
            lost = {path: proxy.lost(path) for path in sorted({e.path for e in proxy.exchanges})}
        unheard = sum(len(claimed(each.reply)) for each in claims if each.lost)
        print(f"{tasks} tasks; replies lost: {lost}; attempts that nobody heard of: {unheard}")

        assert all(lost.values())
        ends = stack.sql("SELECT outcome, count(*) AS n FROM task_attempts GROUP BY 1 ORDER BY 1")
        assert ends == [
            {"outcome": "Completed", "n": tasks},
            {"outcome": "LeaseExpired", "n": unheard},
        ]
        # What was heard of ran once.
        starts = [(start.task_id, start.attempt) for start in stack.starts()]
        assert len(starts) == len(set(starts)) == tasks


def every_third() -> Callable[[str], bool]:
    """Of each path, the first one included."""
    seen: Counter[str] = Counter()

    def loses(path: str) -> bool:
        seen[path] += 1
        return seen[path] % 3 == 1

    return loses


def claimed(reply: bytes) -> list[Claimed]:
    return ClaimBatchResponse.model_validate_json(reply).claimed
