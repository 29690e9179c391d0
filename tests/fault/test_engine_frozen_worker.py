"""A worker that is frozen past its lease and thawed: what it has to say comes too late.

Each round an attempt runs in one of two worker processes, which is then stopped (SIGSTOP). Its
lease runs out, it is given up, and the other worker runs the next attempt. The first is continued
(SIGCONT), and everything it reports must be refused.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest

from tests.support.cutting_proxy import CuttingProxy, cutting_proxy
from tests.support.engine_stack import Engine, EngineProcess, dag, engine, job
from tests.support.stack import wait_for
from tests.support.witness_operator import Start
from trace_platform.dispatcher.tasks.task_tokens import TaskTokens
from trace_platform.domain.prefix import scratch_prefix
from trace_platform.drivers.lite.pem_signer import FOLDER, PemSigner
from trace_platform.wire.task import FetchResponse

pytestmark = pytest.mark.timeout(900)

SEED = 20_240_611
COMPLETIONS = "/internal/task-completions"
HEARTBEATS = "/internal/task-heartbeats"


@pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=pytest.mark.long)])
def test_a_worker_thawed_after_its_lease_changes_nothing(
    state_dsns: Any, tmp_path: Path, rounds: int
) -> None:
    chance = random.Random(SEED)
    with engine(tmp_path, state_dsns) as stack:
        dispatcher = stack.dispatcher()
        with cutting_proxy([dispatcher.port], stack.tls) as watched:
            workers = [stack.worker(watched.port), stack.worker(watched.port)]
            stack.await_ready()
            deploy(stack, dispatcher.port)
            for number in range(rounds):
                kind = chance.choice(["deaf", "listening"])
                play_round(stack, dispatcher.port, workers, number, kind, chance.random() < 0.5)
            refused = {path: stale_answers(watched, path) for path in (COMPLETIONS, HEARTBEATS)}
        print(f"{rounds} rounds; the frozen attempts were refused so often: {refused}")

        # The second attempts alone are in what was committed, in what was emitted and in history.
        expired = [{"outcomes": ["LeaseExpired", "Completed"], "tasks": rounds}]
        assert stack.outcomes() == expired
        committed = stack.sql("SELECT attempt, count(*) AS n FROM partition_versions GROUP BY 1")
        assert committed == [{"attempt": 2, "n": rounds}]
        emitted = stack.sql(
            "SELECT DISTINCT producer_attempt, split_part(partition_key, '/', 2) AS mark"
            " FROM events WHERE producer_task_id IS NOT NULL ORDER BY 2"
        )
        assert emitted == [
            {"producer_attempt": 2, "mark": ""},
            {"producer_attempt": 2, "mark": "2"},
        ]
        assert sum(refused.values()) >= rounds, "a frozen attempt that nobody refused"
        assert refused[COMPLETIONS] > 0


def deploy(stack: Engine, port: int) -> None:
    """`deaf` works until its end and learns there that it lost its task; `listening` is told by a
    heartbeat, of which its lease makes one in five seconds."""
    config = {"starts": str(stack.starts_file), "gates": str(stack.gates), "commit": True}
    for name, lease_s in (("deaf", 60), ("listening", 15)):
        extra = f"    heartbeat_timeout_seconds: {lease_s}\n    outputs: [rows, marks]\n"
        work = job("work", "witness", config | {"listens": name == "listening"}, extra)
        stack.deploy(port, dag(name, [work]))


def play_round(
    stack: Engine,
    port: int,
    workers: list[EngineProcess],
    number: int,
    kind: str,
    replaced_first: bool,
) -> None:
    """`replaced_first`: the second attempt has ended when the first comes back, else it runs."""
    stack.emit_ranges(port, f"{kind}.source", [(10 * number, 10 * number + 9)])
    first = wait_for("the first attempt", lambda: started(stack, number, 1))
    frozen = next(worker for worker in workers if worker.pid == first.pid)
    frozen.freeze()
    wait_for("a frozen worker", lambda: psutil.Process(frozen.pid).status() == "stopped")
    second = wait_for("the second attempt", lambda: replaced(stack, number, first))
    assert second.pid != first.pid

    if replaced_first:
        end_second_attempt(stack, first.task_id)
    if kind == "deaf":
        stack.open_gate(first.task_id, 1)
    frozen.thaw()
    wait_for("the first attempt's end", lambda: lost_its_task(frozen, first.task_id))
    assert_refused(stack, port, UUID(first.task_id))
    if not replaced_first:
        end_second_attempt(stack, first.task_id)


def started(stack: Engine, number: int, attempt: int) -> Start | None:
    """Rounds follow each other: the newest task is the one of this round."""
    starts = stack.starts()
    tasks = list(dict.fromkeys(start.task_id for start in starts))
    if len(tasks) <= number:
        return None
    return next((s for s in starts if (s.task_id, s.attempt) == (tasks[number], attempt)), None)


def replaced(stack: Engine, number: int, first: Start) -> Start | None:
    # Again and again: a heartbeat that was on its way when the worker froze extends the lease.
    stack.sql(
        "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'"
        " WHERE id = %s AND attempt = 1 AND status = 'Running'",
        first.task_id,
    )
    return started(stack, number, 2)


def end_second_attempt(stack: Engine, task_id: str) -> None:
    stack.open_gate(task_id, 2)
    completed = "SELECT status = 'Completed' AND attempt = 2 FROM tasks WHERE id = %s"
    wait_for("the second attempt's completion", lambda: stack.value(completed, task_id))


def lost_its_task(worker: EngineProcess, task_id: str) -> bool:
    return any(line["task"] == task_id for line in worker.says("attempt_lost_its_task"))


def assert_refused(stack: Engine, port: int, task_id: UUID) -> None:
    """Whatever the first attempt could say, with its own lease token and capability token."""
    token = stack.value(
        "SELECT lease_token FROM task_attempts WHERE task_id = %s AND attempt = 1", task_id
    )
    fence = {"task_id": str(task_id), "attempt": 1, "lease_token": str(token)}
    ended = fence | {"status": "Completed"}
    with stack.client(port) as http:
        fetched = http.get("/internal/task-fetch", params={"task_id": str(task_id)})
        task = FetchResponse.model_validate_json(fetched.text).task.model_copy(
            update={"attempt": 1}
        )
        tokens = TaskTokens(PemSigner(stack.secrets / FOLDER))
        # In place of the user's token, which the client sends elsewhere.
        http.headers["Authorization"] = f"Bearer {tokens.issue(task.org_id, task)}"
        output = task.outputs[0]
        written = {
            "dataset_uuid": str(output.dataset_uuid),
            "dataset_version": str(output.dataset_version),
        }
        event = written | {"partition_key": f"{task_id}/1 too late"}
        scratch = scratch_prefix("trace-scratch", output.dataset_uuid, task_id, 1)
        said = {
            "/v1/task/heartbeat": fence,
            "/v1/task/events": fence | {"events": [event]},
            "/v1/task/complete": ended | {"events": [event]},
            "/v1/task/buffer-publish": fence
            | written
            | {"batch_uri": f"{scratch}batch.arrow", "record_count": 1},
        }
        for path, body in said.items():
            answer = http.post(path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (409, "stale_fence"), path
        beat = {"worker_id": "late", "runtime": "ecs_platform", "slots": 1, "beats": [fence]}
        for path, body in {HEARTBEATS: beat, COMPLETIONS: {"completions": [ended]}}.items():
            (result,) = http.post(path, json=body).raise_for_status().json()["results"]
            assert result["problem"]["code"] == "stale_fence", path


def stale_answers(proxy: CuttingProxy, path: str) -> int:
    return sum(each.reply.count(b'"stale_fence"') for each in proxy.replies(path))
