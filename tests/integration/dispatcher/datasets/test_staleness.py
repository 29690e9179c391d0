"""How far generations are behind, and how what was lost comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.dispatcher.tasks.test_claims import dag, emit
from tests.support.chain_data import CHANGED, READER, fill, finish, take, work
from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.events.publish_outbox import publish_outbox
from trace_platform.dispatcher.events.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.state import generations, locks, staleness
from trace_platform.state.staleness import Staleness
from trace_platform.wire.control import EmitRequest

pytestmark = pytest.mark.anyio

STALE_FIELDS = ("current", "not_given", "unfinished", "failed")


async def of(plane: ControlPlane, job: str) -> Staleness:
    """Of the active generation of a job."""
    (row,) = plane.sql(
        "SELECT v.generation_id FROM active_dags a JOIN dag_version_jobs v USING (dag_version_id)"
        " JOIN jobs j ON j.id = v.job_id WHERE j.name = %s",
        job,
    )
    async with plane.dispatcher.state.transaction() as tx:
        found = await staleness.of_generations(tx, [row["generation_id"]])
    return found[row["generation_id"]]


def counts(found: Staleness) -> tuple[int, ...]:
    return tuple(getattr(found, field) for field in STALE_FIELDS)


async def missing(plane: ControlPlane, job: str) -> int:
    """How many `owe_missing` would owe to it, and rolls that back."""
    found = await of(plane, job)
    async with plane.dispatcher.state.transaction() as tx:
        await locks.routing(tx)
        owed = await generations.owe_missing(tx, [found.generation_id])
        await tx.execute("DELETE FROM outbox")
    return sum(owed.values())


async def test_every_event_is_current_until_its_partition_is_replaced(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9), (10, 19))
    assert counts(await of(plane, "ingest")) == (2, 0, 0, 0)
    assert counts(await of(plane, "split")) == (2, 0, 0, 0)
    assert (await of(plane, "ingest")).oldest is None
    # The whole range at once takes the place of both, of which nobody knows what they were made of.
    await plane.deploy(READER)
    await work(plane)
    assert await advance_deploys(plane.dispatcher.state) == 1, (
        "it reads what is there: it was built first"
    )
    assert counts(await of(plane, "decode")) == (2, 0, 0, 0)
    plane.sql("UPDATE partition_versions SET made_of = '[]'")
    await fill(plane, (0, 29))
    assert counts(await of(plane, "decode")) == (1, 0, 0, 0)


async def test_what_is_not_routed_held_owed_or_lost_is_told_apart(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    await plane.trigger(10, 19)
    found = await of(plane, "split")
    assert (found.not_given, found.not_routed, found.owed, found.lost) == (1, 1, 0, 0)
    assert found.oldest is not None
    await work(plane)
    plane.sql("DELETE FROM task_inputs")
    found = await of(plane, "split")
    assert (found.not_given, found.not_routed, found.owed, found.lost) == (2, 0, 0, 2)
    async with plane.dispatcher.state.transaction() as tx:
        await locks.routing(tx)
        await generations.owe_missing(tx, [found.generation_id])
    found = await of(plane, "split")
    assert (found.not_given, found.owed, found.lost) == (2, 2, 0)


async def test_tasks_are_counted_by_what_they_wait_for(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    await emit(plane, "d.source", *range(5))
    first, second, third = await take(plane, 3)
    await plane.complete(first, status="Failed", error_code="x")
    await plane.complete(second, status="Failed", error_code="x", retryable=False)
    found = await of(plane, "work")
    assert counts(found) == (5, 0, 4, 1)
    assert (found.running, found.ready, found.retrying) == (1, 2, 1)
    assert found.failed_task_ids == [second.task.task_id]
    await plane.complete(third)


async def test_a_job_that_takes_partitions_only_is_not_behind_with_cursors(
    plane: ControlPlane,
) -> None:
    await plane.deploy(dag("d", work="execution_strategy: PerPartition"))
    await emit(plane, "d.source", 1, 2)
    assert counts(await of(plane, "work")) == (0, 0, 0, 0)


async def test_what_backpressure_dropped_is_not_missed(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    await emit(plane, "d.source", 1)
    plane.sql("UPDATE tasks SET status = 'Canceled', error_code = 'dropped_by_backpressure'")
    assert counts(await of(plane, "work")) == (1, 0, 0, 0)


async def test_of_a_partition_that_is_told_again_the_last_word_counts(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    for repeat in ("a", "b", "c"):
        plane.sql(
            "INSERT INTO events (org_id, dataset_uuid, dataset_version, identity, partition_key,"
            " range_start, range_end, routed_at, position) SELECT org_id, uuid, current_version,"
            " 'partition:0-9@' || %s, '0-9', 0, 9, now(), 1 FROM datasets"
            " WHERE job_name = 'source'",
            repeat,
        )
    found = await of(plane, "work")
    assert (found.current, found.lost) == (1, 1)
    assert await missing(plane, "work") == 1, "both ask the same question"


async def test_what_was_invalid_before_a_generation_began_is_none_of_its_business(
    plane: ControlPlane,
) -> None:
    await plane.deploy(dag("d", work=""))
    for position in (0, 1):
        plane.sql(
            "INSERT INTO events (org_id, dataset_uuid, dataset_version, identity, range_start,"
            " range_end, routed_at, invalidation_id, position) SELECT org_id, uuid,"
            " current_version, 'invalidation:' || %s, 0, 9, now(), gen_random_uuid(), %s"
            " FROM datasets WHERE job_name = 'source'",
            position,
            position,
        )
    assert (await of(plane, "work")).lost == await missing(plane, "work") == 1


async def test_of_cursors_the_newest_are_looked_at(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staleness, "NEWEST_CURSORS", 3)
    await plane.deploy(dag("d", work=""))
    await emit(plane, "d.source", *range(10))
    assert (await of(plane, "work")).current == 3


# --- what was lost


async def lose(plane: ControlPlane, dataset: str) -> int:
    """As if nobody had been given the events of this dataset; how many."""
    rows = plane.sql(
        "DELETE FROM task_inputs WHERE event_id IN (SELECT e.id FROM events e JOIN datasets d"
        " ON d.uuid = e.dataset_uuid WHERE d.dag_name || '.' || d.job_name = %s) RETURNING task_id",
        dataset,
    )
    tasks = [row["task_id"] for row in rows]
    plane.sql("DELETE FROM tasks WHERE id = ANY(%s)", tasks)
    return len(rows)


async def test_events_that_were_not_given_are_found_and_given_once(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9), (10, 19))
    state = plane.dispatcher.state
    assert await reconcile_partitions(state) == 0
    assert await lose(plane, "chain.request") == 2
    assert await reconcile_partitions(state) == 2
    assert await reconcile_partitions(state) == 0, "they are owed already"
    claims = await take(plane)
    assert [c.task.job.name for c in claims] == ["split", "split"]
    for claimed in claims:
        await finish(plane, claimed)
    await work(plane)
    assert await reconcile_partitions(state) == 0


async def test_committed_partitions_that_were_not_given_are_found(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    await fill(plane, (0, 9), (10, 19))
    assert await lose(plane, "chain.ingest") == 2
    assert await reconcile_partitions(plane.dispatcher.state) == 2
    await plane.settle()
    assert counts(await of(plane, "decode")) == (2, 0, 2, 0)


async def test_what_waits_for_a_deploy_is_not_lost(plane: ControlPlane) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    await plane.deploy(CHANGED)
    await plane.trigger(10, 19)
    (split,) = [c for c in await take(plane) if c.task.job.name == "split"]
    await finish(plane, split)
    await plane.settle()
    assert (await of(plane, "ingest")).held == 1
    assert await reconcile_partitions(plane.dispatcher.state) == 0


async def test_looking_for_what_was_lost_waits_for_no_routing_and_stops_none(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await fill(plane, (0, 9))
    request: Any = {"dataset": "chain.request", "events": [{"cursor": 7}]}
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, EmitRequest(**request))
    async with plane.dispatcher.state.transaction() as tx:
        await locks.share_routing(tx)
        # Somebody routes: a lock of all would wait for him here.
        assert await asyncio.wait_for(reconcile_partitions(plane.dispatcher.state), 20) == 0
        assert await publish_outbox(plane.publishing()) > 0


async def test_events_that_are_routed_while_one_looks_are_given_once(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    request: Any = {"dataset": "d.source", "events": [{"cursor": n} for n in range(200)]}
    for n in range(5):
        request["events"] = [{"cursor": n * 200 + k} for k in range(200)]
        await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, EmitRequest(**request))
        routed, found = await asyncio.gather(
            publish_outbox(plane.publishing()), reconcile_partitions(plane.dispatcher.state)
        )
        assert found == 0, "what is under way is not lost"
        assert routed > 0
    await plane.settle()
    (row,) = plane.sql("SELECT count(*) AS n, count(DISTINCT task_id) AS tasks FROM task_inputs")
    assert (row["n"], row["tasks"]) == (1000, 1000)
