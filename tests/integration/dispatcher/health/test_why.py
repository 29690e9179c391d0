"""Why a task or a job does not move: every answer, in the order in which it matters."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.control_plane import DAG, ControlPlane
from trace_platform.dispatcher.events.publish_outbox import publish_outbox
from trace_platform.dispatcher.health.explain import explain
from trace_platform.dispatcher.pressure.pause_job import pause_job
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.domain.errors import BadInput, NotFound
from trace_platform.domain.runtimes import Runtime, Runtimes
from trace_platform.state import tasks as task_state
from trace_platform.wire.control import PauseRequest, Why

pytestmark = pytest.mark.anyio

LIMITED = DAG.replace(
    "config: { chunk_blocks: 10 }",
    "config: { chunk_blocks: 10 }\n    scaling: { max_concurrency: 1 }\n"
    "    backpressure: { max_queue_depth: 10, max_queue_age: 5m }",
)


async def why(plane: ControlPlane, subject: Any) -> Why:
    return await explain(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.runtimes,
        plane.dispatcher.org_id,
        str(subject),
    )


def codes(answer: Why) -> list[str]:
    assert answer.answer == answer.reasons[0].text
    return [reason.code for reason in answer.reasons]


def worker(plane: ControlPlane, name: str, slots: int = 1, runtime: str = "ecs_platform") -> None:
    plane.sql(
        "INSERT INTO workers (worker_id, runtime, slots) VALUES (%s, %s, %s)",
        name,
        runtime,
        slots,
    )


async def queued(plane: ControlPlane, count: int, yaml: str = DAG) -> list[UUID]:
    """Ready tasks of chain.split, the oldest first."""
    await plane.deploy(yaml)
    for n in range(count):
        await plane.trigger(n * 10, n * 10 + 9)
    await plane.settle()
    rows = plane.sql("SELECT id FROM tasks ORDER BY priority, queued_at, id")
    return [row["id"] for row in rows]


# --- tasks that ended, or run


async def test_a_completed_task_says_when_and_by_whom(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    await plane.complete(await plane.claimed(task, "worker-7"))
    answer = await why(plane, task)
    assert codes(answer) == ["completed"]
    assert "worker-7" in answer.answer


async def test_a_task_that_failed_for_good_says_how_to_try_again(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    await plane.complete(
        await plane.claimed(task),
        status="Failed", error_code="wrong_chain", error_message="chain 5", retryable=False,
    )  # fmt: skip
    answer = await why(plane, task)
    assert codes(answer) == ["failed"]
    assert "after 1 of 3 attempts: [wrong_chain] chain 5" in answer.answer
    assert f"trace tasks retry {task}" in (answer.reasons[0].cure or "")


async def test_a_task_that_waits_to_retry_says_when(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    await plane.complete(
        await plane.claimed(task), status="Failed", error_code="x", error_message="y"
    )
    plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() + interval '90 s'")
    answer = await why(plane, task)
    assert codes(answer) == ["retry_waits"]
    assert "attempt 1 of 3 failed, and it is tried again in 1m 2" in answer.answer
    plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() - interval '1 s'")
    assert "tried again at once" in (await why(plane, task)).answer


async def test_a_canceled_task_says_why(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, task)
    assert codes(await why(plane, task)) == ["canceled"]
    plane.sql("UPDATE tasks SET error_code = 'dropped_by_backpressure', error_message = 'older'")
    assert "[dropped_by_backpressure] older" in (await why(plane, task)).answer


async def test_a_running_task_says_where_and_how_far(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    claimed = await plane.claimed(task, "worker-7")
    await plane.beat(claimed, progress={"done": 3, "total": 10})
    answer = await why(plane, task)
    assert codes(answer) == ["running"]
    assert "attempt 1 of 3 runs on worker-7" in answer.answer
    assert "3 of 10 done" in answer.answer

    await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, task)
    assert codes(await why(plane, task)) == ["cancel_requested", "running"]
    plane.sql("UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '5 s'")
    assert codes(await why(plane, task)) == ["silent", "cancel_requested", "running"]


# --- tasks that wait


async def test_a_ready_task_knows_its_place(plane: ControlPlane) -> None:
    tasks = await queued(plane, 3)
    worker(plane, "w", slots=9)
    answer = await why(plane, tasks[2])
    assert codes(answer) == ["in_line", "wake_up"]
    assert answer.place is not None
    assert (answer.place.in_job, answer.place.of_job, answer.place.ahead) == (3, 3, 2)
    assert "announced again in" in answer.reasons[1].text


async def test_a_task_of_a_paused_job_says_who_can_let_it_go(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    worker(plane, "w")
    request = PauseRequest(reason="node is down")
    await pause_job(plane.dispatcher.state, plane.dispatcher.org_id, "chain", "split", request)
    answer = await why(plane, task)
    assert codes(answer) == ["paused", "in_line", "wake_up"]
    assert "node is down" in answer.answer
    assert answer.reasons[0].cure == "trace resume chain.split"


async def test_a_task_that_is_held_for_a_consumer_names_it(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    worker(plane, "w")
    for rank, held in ((2, False), (1, True)):
        plane.sql("DELETE FROM job_holds")
        plane.sql(
            "INSERT INTO job_holds (org_id, dag_name, job_name, cause, from_rank, reason)"
            " SELECT org_id, dag_name, 'split', id::text, %s, 'chain.ingest has 12, limit 10'"
            " FROM jobs WHERE name = 'ingest'",
            rank,
        )
        answer = await why(plane, task)
        assert ("held_for_consumer" in codes(answer)) is held
    assert "until chain.ingest catches up: chain.ingest has 12, limit 10" in answer.answer
    assert "trace why chain.ingest" in (answer.reasons[0].cure or "")


async def test_a_deferred_task_waits_for_its_own_queue(plane: ControlPlane) -> None:
    (task, *_) = await queued(plane, 3, LIMITED)
    plane.sql("UPDATE tasks SET pending_backpressure = true WHERE id = %s", task)
    plane.sql(
        "INSERT INTO job_pressure (job_id, from_rank, depth, age_s)"
        " SELECT job_id, 0, 12, 3 FROM tasks WHERE id = %s",
        task,
    )
    answer = await why(plane, task)
    assert (codes(answer), answer.place) == (["deferred"], None)
    assert "2 tasks of it are ready, and 1 wait" in answer.answer


async def test_a_task_of_a_job_at_its_limit_names_who_holds_the_slots(plane: ControlPlane) -> None:
    first, second = await queued(plane, 2, LIMITED)
    worker(plane, "w", slots=9)
    await plane.claimed(first, "worker-7")
    answer = await why(plane, second)
    assert codes(answer) == ["at_limit", "in_line", "wake_up"]
    assert f"1 of at most 1 task at once: {first} on worker-7" in answer.answer


async def test_a_task_without_workers_says_so(plane: ControlPlane) -> None:
    first, second = await queued(plane, 2)
    worker(plane, "other", runtime="another")
    assert codes(await why(plane, second)) == ["no_worker", "in_line", "wake_up"]
    worker(plane, "w", slots=1)
    assert codes(await why(plane, second)) == ["in_line", "wake_up"]
    plane.sql("UPDATE workers SET polled_s = 31 WHERE worker_id = 'w'")
    answer = await why(plane, second)
    assert codes(answer) == ["workers_cannot_poll", "in_line", "wake_up"]
    plane.sql("UPDATE workers SET polled_s = 0 WHERE worker_id = 'w'")
    await plane.claimed(first, "w")
    answer = await why(plane, second)
    assert codes(answer) == ["workers_full", "in_line", "wake_up"]
    assert "all 1 slots of the one worker of ecs_platform" in answer.answer


async def test_a_task_whose_runtime_is_off_says_how_to_enable_it(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    off = Runtimes([Runtime("ecs_platform", queue="ecs_platform", enabled=False)])
    answer = await explain(
        plane.dispatcher.state, plane.dispatcher.data, off, plane.dispatcher.org_id, str(task)
    )
    assert codes(answer) == ["runtime_off", "in_line", "wake_up"]
    assert "enabled = true" in (answer.reasons[0].cure or "")


async def test_a_task_of_a_version_that_gave_way_says_so(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    await plane.deploy(
        DAG.replace("kind: manual }", "kind: manual }\n    bootstrap: { reset_outputs: true }")
    )
    answer = await why(plane, task)
    assert codes(answer) == ["canceled"]
    assert "another version of the DAG" in answer.reasons[0].text


async def test_the_place_follows_the_order_of_the_claim(plane: ControlPlane) -> None:
    """Asked for every task beforehand; then claimed one by one."""
    yaml = "name: many\njobs:\n  - { name: go, activation: source, source: { kind: manual } }\n"
    for name, priority in (("a", "normal"), ("b", "normal"), ("c", "high"), ("d", "low")):
        yaml += (
            f"  - {{ name: {name}, activation: reactive, runtime: ecs_platform, operator: no_op,"
            f" inputs: [{{ from: {{ job: go }} }}], priority: {priority} }}\n"
        )
    await plane.deploy(yaml)
    for n in range(3):
        await plane.trigger(n, n, "many", "go")
    await plane.settle()
    plane.sql(
        "UPDATE tasks SET status = 'Canceled', completed_at = clock_timestamp() WHERE id IN"
        " (SELECT t.id FROM tasks t JOIN jobs j ON j.id = t.job_id WHERE j.name = 'b'"
        "   ORDER BY t.id DESC LIMIT 2)"
    )
    ids = [row["id"] for row in plane.sql("SELECT id FROM tasks WHERE status = 'Queued'")]
    told = {task: (await why(plane, task)).place for task in ids}
    order = await _claim_order(plane)
    assert set(order) == set(ids)
    for position, task in enumerate(order):
        place = told[task]
        assert place is not None
        # Those with an equal turn may go either way.
        assert abs(place.ahead - position) <= 1, (position, place)


async def _claim_order(plane: ControlPlane) -> list[UUID]:
    order: list[UUID] = []
    while True:
        async with plane.dispatcher.state.transaction() as tx:
            rows = await task_state.claim(tx, "ecs_platform", ["w"])
        if not rows:
            return order
        order.append(rows[0].id)


# --- jobs


async def test_a_manual_source_says_when_it_last_emitted(plane: ControlPlane) -> None:
    await plane.deploy()
    answer = await why(plane, "chain.request")
    assert codes(answer) == ["source"]
    assert "it never was" in answer.answer
    assert "trace sources trigger chain request" in (answer.reasons[0].cure or "")
    await plane.trigger(0, 29)
    assert codes(await why(plane, "chain.request")) == ["not_routed", "source"]
    await plane.settle()
    answer = await why(plane, "chain.request")
    assert codes(answer) == ["source"]
    assert "chain.request.0 (0-29)" in answer.answer
    await pause_job(
        plane.dispatcher.state, plane.dispatcher.org_id, "chain", "request", PauseRequest()
    )
    assert codes(await why(plane, "chain.request")) == ["paused", "source"]


async def test_a_job_without_events_points_upstream(plane: ControlPlane) -> None:
    await plane.deploy()
    answer = await why(plane, "chain.ingest")
    assert codes(answer) == ["no_events"]
    assert "never an event of chain.split.0" in answer.answer
    assert answer.reasons[0].cure == "trace why chain.split"
    assert [event.dataset for event in answer.inputs] == ["chain.split.0"]
    assert [event.dataset for event in answer.outputs] == ["blocks", "transactions", "logs"]


async def test_a_job_whose_event_is_not_routed_says_so(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.trigger(0, 29)
    assert codes(await why(plane, "chain.split"))[0] == "not_routed"
    assert await publish_outbox(plane.publishing())
    assert codes(await why(plane, "chain.split")) == ["no_worker", "ready"]


async def test_a_job_says_what_it_does(plane: ControlPlane) -> None:
    first, *_ = await queued(plane, 3, LIMITED)
    worker(plane, "w", slots=9)
    await plane.claimed(first, "w")
    answer = await why(plane, "chain.split")
    assert codes(answer) == ["at_limit", "running"]
    assert "1 running, 2 ready, the oldest for" in answer.reasons[1].text
    assert answer.queue is not None
    assert (answer.queue.running, answer.queue.ready) == (1, 2)


async def test_an_idle_job_names_its_newest_input(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    await plane.complete(await plane.claimed(task))
    answer = await why(plane, "chain.split")
    assert codes(answer) == ["idle"]
    assert "chain.request.0 (0-9)" in answer.answer


async def test_a_failure_since_the_newest_event_is_the_news(plane: ControlPlane) -> None:
    (task,) = await queued(plane, 1)
    await plane.complete(
        await plane.claimed(task),
        status="Failed", error_code="wrong_chain", error_message="chain 5", retryable=False,
    )  # fmt: skip
    answer = await why(plane, "chain.split")
    assert codes(answer) == ["failing", "idle"]
    assert "[wrong_chain] chain 5" in answer.answer
    plane.sql("UPDATE tasks SET completed_at = completed_at - interval '1 day'")
    assert codes(await why(plane, "chain.split")) == ["idle", "failing"]


async def test_a_job_under_pressure_says_what_happens_to_its_tasks(plane: ControlPlane) -> None:
    await queued(plane, 2, LIMITED)
    worker(plane, "w")
    plane.sql(
        "INSERT INTO job_pressure (job_id, from_rank, depth, age_s)"
        " SELECT DISTINCT job_id, 0, 12, 3 FROM tasks"
    )
    answer = await why(plane, "chain.split")
    assert codes(answer) == ["pressure", "ready"]
    assert "12 tasks (limit 10), the oldest 3.0 s old (limit 5m 0s)" in answer.answer
    assert "wait in Postgres" in answer.answer


async def test_a_name_that_is_none_is_refused_with_what_there_is(plane: ControlPlane) -> None:
    await plane.deploy()
    with pytest.raises(NotFound) as missing:
        await why(plane, "chain.splitt")
    assert "did you mean chain.split?" in (missing.value.hint or "")
    for odd in ("chain", "x", "123"):
        with pytest.raises(BadInput) as wrong:
            await why(plane, odd)
        # Of a DAG its jobs are named.
        assert ("chain.split" in (wrong.value.hint or "")) == (odd == "chain")
    for odd in (".", "a.b.c", "chain."):
        with pytest.raises(NotFound):
            await why(plane, odd)
