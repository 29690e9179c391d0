"""Who gets which task: limits, priorities, turns between jobs and organisations."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.sources.watch_sources import watch_sources
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.tasks.reap_leases import reap_leases
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.drivers.queue import source_queue
from trace_platform.state import holds, tasks
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.task import Claimed, NotClaimed

pytestmark = pytest.mark.anyio

SOURCE = "  - { name: source, activation: source, source: { kind: manual } }\n"


def dag(name: str, **jobs: str) -> str:
    """One source and no-op jobs that read it; the value is a job's further fields."""
    text = f"name: {name}\njobs:\n{SOURCE}"
    for job, fields in jobs.items():
        text += (
            f"  - {{ name: {job}, activation: reactive, runtime: ecs_platform, operator: no_op,"
            f" inputs: [{{ from: {{ job: source }} }}]{', ' + fields if fields else ''} }}\n"
        )
    return text


async def emit(plane: ControlPlane, dataset: str, *cursors: int) -> None:
    events: Any = [{"cursor": cursor} for cursor in cursors]
    await emit_events(
        plane.dispatcher.state, plane.dispatcher.org_id, EmitRequest(dataset=dataset, events=events)
    )
    await plane.settle()


async def take(plane: ControlPlane, n: int, worker: str = "w") -> list[Claimed]:
    found = await claim_tasks(
        plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", [worker] * n
    )
    return [claimed for _, claimed in found]


def jobs_of(claims: list[Claimed]) -> list[str]:
    return [f"{c.task.job.dag_name}.{c.task.job.name}" for c in claims]


def cursors(claims: list[Claimed]) -> list[int | None]:
    return [c.task.inputs[0].cursor for c in claims]


async def test_a_batch_is_at_most_what_was_asked_for_and_each_task_once(
    plane: ControlPlane,
) -> None:
    await plane.deploy(dag("d", work=""))
    await emit(plane, "d.source", *range(10))
    first, second = await take(plane, 4), await take(plane, 20)
    assert (len(first), len(second)) == (4, 6)
    assert len({c.task.task_id for c in first + second}) == 10


async def test_a_job_runs_no_more_than_its_limit_however_many_claim(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work="scaling: { mode: backfill, max_concurrency: 3 }"))
    await emit(plane, "d.source", *range(20))
    claims = await asyncio.gather(*(take(plane, 2, f"w{n}") for n in range(12)))
    running = [claimed for batch in claims for claimed in batch]
    assert len(running) == 3
    await plane.complete(running[0])
    assert len(await take(plane, 5)) == 1


async def test_a_claim_counts_what_the_one_before_it_has_not_committed_yet(
    plane: ControlPlane,
) -> None:
    await plane.deploy(dag("d", work="scaling: { mode: steady }"))
    await emit(plane, "d.source", 1, 2)
    async with plane.dispatcher.state.transaction() as tx:
        assert len(await tasks.claim(tx, "ecs_platform", ["first"])) == 1
        # The other will choose another task, so no row's lock keeps it from starting one.
        plane.sql("UPDATE tasks SET priority = 0 WHERE inputs @> '[{\"cursor\": 2}]'")
        other = asyncio.create_task(take(plane, 1))
        await plane.blocked(other)
    assert await other == []


async def test_steady_is_one_at_a_time(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work="scaling: { mode: steady }"))
    await emit(plane, "d.source", 1, 2)
    (first,) = await take(plane, 2)
    await plane.complete(first)
    assert cursors(await take(plane, 2)) == [2]


async def test_only_what_may_run_is_announced_and_an_end_announces_the_next(
    plane: ControlPlane,
) -> None:
    await plane.deploy(dag("d", work="scaling: { mode: backfill, max_concurrency: 2 }"))
    await emit(plane, "d.source", *range(50))
    assert len(plane.wake_ups()) == 2
    first, _ = await take(plane, 2)
    await plane.complete(first)
    await plane.settle()
    (task_id,) = plane.wake_ups()
    assert (await plane.claimed(task_id)).task.inputs[0].cursor == 2


async def test_a_slot_that_a_dead_worker_held_is_free_again(plane: ControlPlane) -> None:
    yaml = dag("d", work="scaling: { mode: steady }, max_attempts: 1")
    await plane.deploy(yaml)
    await emit(plane, "d.source", 1, 2)
    await take(plane, 1)
    plane.sql("UPDATE tasks SET lease_expires_at = now() - interval '1s' WHERE status = 'Running'")
    plane.wake_ups()
    assert len(await reap_leases(plane.dispatcher.state)) == 1
    await plane.settle()
    assert len(plane.wake_ups()) == 1
    assert cursors(await take(plane, 2)) == [2]


async def test_a_named_claim_of_a_job_at_its_limit_is_held(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work="scaling: { mode: steady }"))
    await emit(plane, "d.source", 1, 2)
    await take(plane, 1)
    (waiting,) = plane.sql("SELECT id FROM tasks WHERE status = 'Queued'")
    assert await plane.claim(waiting["id"]) == NotClaimed(reason="Held")


async def test_high_goes_before_normal_before_low(plane: ControlPlane) -> None:
    await plane.deploy(
        dag("d", slow="priority: low", usual="", urgent="priority: high", also="priority: bulk")
    )
    await emit(plane, "d.source", 1)
    assert jobs_of(await take(plane, 2)) == ["d.urgent", "d.usual"]
    assert sorted(jobs_of(await take(plane, 5))) == ["d.also", "d.slow"]


async def test_jobs_of_one_priority_take_turns(plane: ControlPlane) -> None:
    await plane.deploy(dag("a", work=""))
    await plane.deploy(dag("b", work=""))
    await emit(plane, "a.source", *range(100))
    await emit(plane, "b.source", *range(3))
    claims = jobs_of(await take(plane, 6))
    assert claims.count("b.work") == 3


async def test_where_very_many_jobs_wait_all_that_was_asked_for_is_found(
    plane: ControlPlane,
) -> None:
    """Most of them have one task, one has many, and one is urgent."""
    await plane.deploy(dag("d", urgent="priority: high", **{f"j{n}": "" for n in range(30)}))
    await emit(plane, "d.source", 1)
    many = plane.sql("SELECT id FROM jobs WHERE name = 'j7'")[0]
    plane.sql(
        "INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs)"
        " SELECT org_id, job_id, generation_id, 'more' || n, runtime, 1, '[]'"
        " FROM tasks, generate_series(1, 100) n WHERE job_id = %s",
        many["id"],
    )
    claims = await take(plane, 60)
    assert jobs_of(claims)[0] == "d.urgent"
    assert len(claims) == 60
    assert jobs_of(claims).count("d.j7") == 30


async def test_a_wake_up_that_was_wasted_on_the_limit_is_made_good(plane: ControlPlane) -> None:
    """A task comes while the one before it is about to end: its wake-up finds the limit reached."""
    await plane.deploy(dag("d", work="scaling: { mode: steady }"))
    await emit(plane, "d.source", 1)
    (first,) = await take(plane, 1)
    async with plane.dispatcher.state.transaction() as tx:
        await tasks.finish(tx, [tasks.Ending(first.fence, "Completed")])
        (job,) = plane.sql("SELECT job_id, id FROM tasks")
        await tasks.announce_next(tx, {job["id"]: job["job_id"]})
        await emit(plane, "d.source", 2)
        plane.wake_ups()
        other = asyncio.create_task(take(plane, 1))
        await plane.blocked(other)
    await other
    await plane.settle()
    assert len(plane.wake_ups()) == 1


async def test_within_a_job_the_oldest_is_first(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    await emit(plane, "d.source", 5)
    await emit(plane, "d.source", 1, 9)
    assert cursors(await take(plane, 3)) == [5, 1, 9]


async def test_no_organisation_starves_another(plane: ControlPlane) -> None:
    """One has a thousand urgent tasks and all workers so far; the other gets the next places."""
    await plane.deploy(dag("d", work="priority: high"))
    await emit(plane, "d.source", *range(200))
    assert len(await take(plane, 20)) == 20
    other = other_org(plane, tasks=10)
    claims = await take(plane, 15)
    assert sum(claimed.task.org_id == other for claimed in claims) == 10


def other_org(plane: ControlPlane, tasks: int) -> UUID:
    """A second organisation with a job of low priority like the first one's."""
    org_id, job_id = uuid4(), uuid4()
    plane.sql("INSERT INTO orgs (id, slug, name) VALUES (%s, 'other', 'Other')", org_id)
    plane.sql(
        "INSERT INTO jobs (id, org_id, dag_name, name, config_hash, activation, runtime, operator,"
        " outputs, config, priority, max_attempts, timeout_seconds, heartbeat_timeout_seconds)"
        " SELECT %s, %s, 'o', 'work', config_hash, activation, runtime, operator, outputs, config,"
        " 2, 3, 60, 60 FROM jobs WHERE name = 'work' LIMIT 1",
        job_id,
        org_id,
    )
    plane.sql(
        "INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs)"
        " SELECT %s, %s, %s, n::text, 'ecs_platform', 2, '[]' FROM generate_series(1, %s) n",
        org_id,
        job_id,
        uuid4(),
        tasks,
    )
    return org_id


async def test_a_paused_job_starts_nothing_and_goes_on_when_resumed(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    await emit(plane, "d.source", 1)
    org_id = plane.dispatcher.org_id
    async with plane.dispatcher.state.transaction() as tx:
        await holds.pause(tx, org_id, "d", "work", "by hand")
    assert await take(plane, 5) == []
    plane.wake_ups()
    async with plane.dispatcher.state.transaction() as tx:
        assert await holds.resume(tx, org_id, "d", "work")
        await holds.announce_ready(tx, org_id, "d", "work")
    await plane.settle()
    assert len(plane.wake_ups()) == 1
    assert len(await take(plane, 5)) == 1


async def test_workers_of_another_runtime_get_nothing(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    await emit(plane, "d.source", 1)
    assert await claim_tasks(plane.dispatcher.state, plane.dispatcher.grants, "ecs_r", ["w"]) == []


@pytest.mark.parametrize("when", ["empty", "full"])
async def test_a_claim_reads_neither_history_nor_the_whole_queue(
    plane: ControlPlane, when: str
) -> None:
    """The plan's own figures: rows read from tables, with much history and a long queue, whenever
    the statistics were taken."""
    await plane.deploy(dag("d", work="", limited="scaling: { mode: steady }"))
    await emit(plane, "d.source", 1)
    if when == "empty":
        plane.sql("UPDATE tasks SET status = 'Completed'")
        plane.sql("ANALYZE tasks")
        plane.sql("UPDATE tasks SET status = 'Queued'")
    plane.sql(
        "INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs,"
        " status, completed_at)"
        " SELECT t.org_id, t.job_id, t.generation_id, 'old' || n, runtime, 1, '[]',"
        " CASE WHEN n %% 3 = 0 THEN 'Queued' ELSE 'Completed' END, now()"
        " FROM tasks t, generate_series(1, 20000) n"
    )
    if when == "full":
        plane.sql("ANALYZE tasks")
    before = read_rows(plane)
    assert len(await take(plane, 10)) == 10
    assert read_rows(plane) - before < 200


def read_rows(plane: ControlPlane) -> int:
    plane.sql("SELECT pg_stat_force_next_flush()")
    (row,) = plane.sql(
        "SELECT seq_tup_read + idx_tup_fetch AS n FROM pg_stat_user_tables WHERE relname = 'tasks'"
    )
    return int(row["n"])


def with_sources(name: str, count: int) -> str:
    """As `dag`, with so many sources that run without end."""
    return dag(name, work="") + "".join(
        f"  - {{ name: endless_{n}, activation: source, source: {{ kind: always_on }},"
        " runtime: ecs_platform, operator: no_op }\n"
        for n in range(count)
    )


async def test_runs_of_sources_and_tasks_that_end_are_claimed_apart(plane: ControlPlane) -> None:
    await plane.deploy(with_sources("d", 3))
    await watch_sources(plane.dispatcher.state, 1.0)
    await emit(plane, "d.source", *range(2))
    assert jobs_of(await take(plane, 10)) == ["d.work"] * 2
    sources = await claim_tasks(
        plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", ["w"] * 10, sources=True
    )
    assert sorted(jobs_of([c for _, c in sources])) == [f"d.endless_{n}" for n in range(3)]


async def test_sources_are_announced_where_their_slots_are_and_tasks_where_theirs_are(
    plane: ControlPlane,
) -> None:
    await plane.deploy(with_sources("d", 2))
    await watch_sources(plane.dispatcher.state, 1.0)
    await emit(plane, "d.source", 1)
    at_sources = plane.received.receive(source_queue("ecs_platform"), 10, 30)
    at_tasks = plane.received.receive("ecs_platform", 10, 30)
    runs = {str(row["id"]) for row in plane.sql("SELECT id FROM tasks WHERE dedupe_key = 'run'")}
    assert {message.body["task_id"] for message in at_sources} == runs
    assert len(at_tasks) == 1
    # A wake-up that was lost is sent again to the same place.
    plane.sql("UPDATE tasks SET announce_again_at = clock_timestamp()")
    await requeue_failed(plane.dispatcher.state)
    await plane.settle()
    again = plane.received.receive(source_queue("ecs_platform"), 10, 30)
    assert {message.body["task_id"] for message in again} == runs


async def test_the_sources_of_an_organisation_cost_its_tasks_no_turn(plane: ControlPlane) -> None:
    await plane.deploy(with_sources("d", 3))
    await watch_sources(plane.dispatcher.state, 1.0)
    await claim_tasks(
        plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", ["w"] * 3, sources=True
    )
    await emit(plane, "d.source", *range(2))
    plane.sql("UPDATE tasks SET priority = 2 WHERE status = 'Queued'")
    other = other_org(plane, tasks=4)
    claims = await take(plane, 4)
    assert sum(claimed.task.org_id == other for claimed in claims) == 2
