"""The happy path and its repetitions: event, route, outbox, queue, claim, complete."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.support.control_plane import DAG, ControlPlane, range_event, stage
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.events.publish_outbox import publish_outbox
from trace_platform.dispatcher.health.describe import dag_status
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.domain.errors import NotFound
from trace_platform.wire.query import DatasetRef, ResolveRequest
from trace_platform.wire.task import Claimed, NotClaimed

pytestmark = pytest.mark.anyio


async def test_a_trigger_reaches_the_queue_as_one_task_id(plane: ControlPlane) -> None:
    await plane.deploy()
    assert await plane.trigger(0, 29) == 1
    await plane.settle()
    (task_id,) = plane.wake_ups()
    claimed = await plane.claimed(task_id)
    assert claimed.attempt == 1
    assert claimed.task.operator == "range_splitter"
    assert (claimed.task.inputs[0].start, claimed.task.inputs[0].end) == (0, 29)


async def test_the_same_range_twice_is_one_event_and_one_task(plane: ControlPlane) -> None:
    await plane.deploy()
    assert [await plane.trigger(0, 29), await plane.trigger(0, 29)] == [1, 0]
    await plane.settle()
    assert len(plane.wake_ups()) == 1


async def test_a_committed_output_becomes_readable_and_emits_its_event(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    outputs = [stage(plane.dispatcher.store, claimed, index, 0, 9) for index in range(3)]
    await plane.complete(claimed, outputs=outputs)

    asked = [DatasetRef(name=name) for name in ("blocks", "transactions", "logs")]
    resolved = await resolve_datasets(
        plane.dispatcher.state, plane.dispatcher.org_id, ResolveRequest(datasets=asked)
    )
    assert {d.name: d.row_count for d in resolved.datasets} == {
        "blocks": 5,
        "transactions": 5,
        "logs": 5,
    }
    files = {f for d in resolved.datasets for f in d.files}
    assert files == {
        o.location + f"{t.name}_0_9.parquet"
        for o, t in zip(outputs, claimed.task.outputs, strict=True)
    }
    events = plane.sql("SELECT * FROM events WHERE producer_task_id = %s", claimed.task.task_id)
    assert len(events) == 3
    assert all(e["identity"].startswith("partition:0-9@") for e in events)


async def test_a_task_that_is_announced_twice_runs_once(plane: ControlPlane) -> None:
    task_id = await plane.queued_split()
    first, second = await asyncio.gather(plane.claim(task_id, "a"), plane.claim(task_id, "b"))
    assert sorted(type(a).__name__ for a in (first, second)) == ["Claimed", "NotClaimed"]
    loser = first if isinstance(first, NotClaimed) else second
    assert isinstance(loser, NotClaimed)
    assert loser.reason == "AlreadyRunning"


async def test_claims_say_why_not(plane: ControlPlane) -> None:
    task_id = await plane.queued_split()
    unknown = await plane.claim(uuid4())
    assert unknown == NotClaimed(reason="NotFound")
    await plane.complete(await plane.claimed(task_id))
    assert await plane.claim(task_id) == NotClaimed(reason="Completed")


async def test_routing_again_creates_nothing_new(plane: ControlPlane) -> None:
    await plane.queued_split()
    plane.sql("UPDATE events SET routed_at = NULL")
    plane.sql(
        "INSERT INTO outbox (kind, payload)"
        " SELECT 'route', jsonb_build_object('event_ids', jsonb_agg(id)) FROM events"
    )
    await plane.settle()
    assert plane.wake_ups() == []
    assert plane.sql("SELECT count(*) AS n FROM tasks") == [{"n": 1}]


async def test_a_crashed_publisher_repeats_a_wake_up_and_loses_none(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.trigger(0, 29)

    class Crash(Exception):
        pass

    class SendsThenDies:
        async def send(self, queue: str, bodies: object) -> None:
            await plane.queue.send(queue, bodies)  # type: ignore[arg-type]
            raise Crash

    with pytest.raises(Crash):
        await publish_outbox(plane.publishing(SendsThenDies()))
    plane.sql("UPDATE outbox SET available_at = clock_timestamp()")
    await plane.settle()
    first, second = plane.wake_ups()
    assert first == second


async def test_a_claim_of_the_outbox_honours_its_limit(plane: ControlPlane) -> None:
    await plane.deploy()
    plane.sql("INSERT INTO outbox (kind, payload) VALUES ('route', '{\"event_ids\": []}')")
    with psycopg.connect(plane.owner_dsn, autocommit=True) as owner:
        owner.execute("VACUUM ANALYZE outbox")
    plane.sql(
        "INSERT INTO outbox (kind, payload)"
        " SELECT 'route', '{\"event_ids\": []}' FROM generate_series(1, 40)"
    )
    assert await publish_outbox(plane.publishing(), limit=5) == 5


async def test_a_row_that_cannot_be_routed_holds_up_nothing(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.trigger(0, 29)
    plane.sql("INSERT INTO outbox (kind, payload) VALUES ('route', '{}')")
    await publish_outbox(plane.publishing())
    await publish_outbox(plane.publishing())
    assert len(plane.wake_ups()) == 1


async def test_an_event_of_an_old_generation_is_kept_but_not_routed(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.trigger(0, 29)
    await plane.deploy(
        DAG.replace(
            "source: { kind: manual }",
            "source: { kind: manual }\n    bootstrap: { reset_outputs: true }",
        )
    )
    await plane.settle()
    assert plane.wake_ups() == []
    assert plane.sql("SELECT count(*) AS n FROM events WHERE routed_at IS NOT NULL") == [{"n": 1}]


async def test_the_same_file_deployed_twice_is_one_version(plane: ControlPlane) -> None:
    first = await deploy_dag(plane.dispatcher.state, plane.dispatcher.org_id, DAG, "dag.yaml")
    again = await deploy_dag(
        plane.dispatcher.state, plane.dispatcher.org_id, "# a comment\n" + DAG, "dag.yaml"
    )
    assert (first.new, again.new) == (True, False)
    assert first.dag_version == again.dag_version


async def test_an_unchanged_job_keeps_its_row_over_a_deploy(plane: ControlPlane) -> None:
    await plane.deploy()
    changed = DAG.replace("chunk_blocks: 10", "chunk_blocks: 20")
    response = await deploy_dag(
        plane.dispatcher.state, plane.dispatcher.org_id, changed, "dag.yaml"
    )
    assert response.added == ["split"]
    assert plane.sql("SELECT count(*) AS n FROM jobs") == [{"n": 4}]


async def test_names_that_are_published_by_two_at_once_go_to_one(plane: ControlPlane) -> None:
    yamls = [DAG.replace("name: chain", f"name: chain_{i}") for i in range(4)]
    done = await asyncio.gather(*(plane.deploy(y) for y in yamls), return_exceptions=True)
    assert sorted(type(d).__name__ for d in done) == ["InvalidDag"] * 3 + ["NoneType"]


async def test_names_can_be_swapped(plane: ControlPlane) -> None:
    await plane.deploy()
    before = {r["name"]: r["uuid"] for r in plane.sql("SELECT name, uuid FROM datasets")}
    swapped = DAG.replace("  blocks: {", "  x: {").replace("  logs: {", "  blocks: {")
    await plane.deploy(swapped.replace("  x: {", "  logs: {"))
    after = {r["name"]: r["uuid"] for r in plane.sql("SELECT name, uuid FROM datasets")}
    assert (after["blocks"], after["logs"]) == (before["logs"], before["blocks"])


async def test_two_deploys_at_once_both_succeed(plane: ControlPlane) -> None:
    other = DAG.replace("chunk_blocks: 10", "chunk_blocks: 20")
    await asyncio.gather(*(plane.deploy(y) for y in (DAG, other, DAG, other)))
    assert plane.sql("SELECT count(*) AS n FROM dag_versions") == [{"n": 2}]
    assert plane.sql("SELECT count(*) AS n FROM datasets") == [{"n": 5}]


async def test_status_counts_tasks_per_job(plane: ControlPlane) -> None:
    split = await plane.claimed(await plane.queued_split())
    await plane.complete(split, events=[range_event(split, 0, 9), range_event(split, 10, 19)])
    await plane.settle()
    status = await dag_status(plane.dispatcher.state, plane.dispatcher.org_id, "chain")
    assert {j.name: j.counts for j in status.jobs} == {
        "request": {},
        "split": {"Completed": 1},
        "ingest": {"Queued": 2},
    }
    with pytest.raises(NotFound):
        await dag_status(plane.dispatcher.state, plane.dispatcher.org_id, "nothing")


async def test_a_big_batch_of_events_is_routed_whole(plane: ControlPlane) -> None:
    split = await plane.claimed(await plane.queued_split(0, 19_999))
    events = [range_event(split, start, start + 9) for start in range(0, 20_000, 10)]
    await plane.complete(split, events=events)
    await plane.settle()
    assert plane.sql("SELECT count(*) AS n FROM tasks WHERE status = 'Queued'") == [{"n": 2000}]
    woken: list[UUID] = []
    while batch := plane.wake_ups():
        woken += batch
    assert len(set(woken)) == 2000


async def test_inputs_name_the_committed_files_of_their_range(plane: ControlPlane) -> None:
    downstream = DAG.replace(
        "publish:",
        """\
  - name: again
    activation: reactive
    runtime: ecs_platform
    operator: range_splitter
    inputs: [{ from: { job: ingest, output: logs } }]
    config: { chunk_blocks: 5 }
publish:""",
    )
    ingest = await plane.claimed(await plane.queued_ingest(yaml=downstream))
    await plane.complete(ingest, outputs=[stage(plane.dispatcher.store, ingest, 2, 0, 9)])
    await plane.settle()
    (task_id,) = plane.wake_ups()
    claimed = await plane.claim(task_id)
    assert isinstance(claimed, Claimed)
    assert claimed.task.inputs[0].files == [ingest.task.outputs[2].prefix + "logs_0_9.parquet"]
