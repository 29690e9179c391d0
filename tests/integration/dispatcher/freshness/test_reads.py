"""Inputs that are read and wake nobody, tables with their cold part, and tasks that are split."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.control_plane import ControlPlane, fence_fields, range_event, stage
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.events.record_events import record_events
from trace_platform.dispatcher.redo.invalidate import invalidate
from trace_platform.dispatcher.redo.process_invalidations import close_invalidations
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.sources.watch_sources import watch_sources
from trace_platform.dispatcher.storage.purge_generation import purge_generations
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import BadInput, DatasetInUse, Forbidden, InvalidDag
from trace_platform.state import scopes, staleness
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.invalidation import InvalidateRequest
from trace_platform.wire.task import Claimed, EventsRequest

pytestmark = pytest.mark.anyio

READS = """\
name: chain
jobs:
  - { name: request, activation: source, source: { kind: manual }, outputs: [ranges] }
  - name: write
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [rows]
  - { name: wake, activation: source, source: { kind: manual }, outputs: [ranges] }
  - name: read
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs:
      - { from: { job: wake } }
      - { from: { job: write }, trigger: false, where: { a: 1 } }
    outputs: [rows]
publish:
  rows: { from: { job: write } }
"""

FOLLOW = """\
name: chain
jobs:
  - name: follow
    activation: source
    source: { kind: always_on }
    runtime: ecs_platform
    operator: ticker
    config: { every_seconds: 1 }
    outputs: [blocks]
  - name: chunks
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: follow } }]
    outputs: [ranges]
  - name: compact
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: chunks } }, { from: { job: follow, output: blocks }, trigger: false }]
    outputs: [blocks]
publish:
  blocks: { from: { job: follow }, cold: { job: compact, output: blocks } }
"""


async def claimed_of(plane: ControlPlane, job: str) -> Claimed:
    await plane.settle()
    for task_id in plane.wake_ups():
        claimed = await plane.claimed(task_id)
        if claimed.task.job.name == job:
            return claimed
    raise AssertionError(f"no task of {job}")


async def written(plane: ControlPlane, start: int, end: int) -> None:
    await plane.trigger(start, end)
    task = await claimed_of(plane, "write")
    await plane.complete(task, outputs=[stage(plane.dispatcher.store, task, 0, start, end)])
    await plane.settle()


async def test_what_is_only_read_wakes_nobody(plane: ControlPlane) -> None:
    await plane.deploy(READS)
    await written(plane, 0, 9)
    assert plane.wake_ups() == []


async def test_it_is_read_in_the_range_of_what_woke_the_task(plane: ControlPlane) -> None:
    await plane.deploy(READS)
    for start in (0, 10, 20):
        await written(plane, start, start + 9)
    await plane.trigger(5, 12, "chain", "wake")
    task = (await claimed_of(plane, "read")).task
    woke, read = task.inputs
    assert (woke.trigger, woke.partition_key, woke.files) == (True, "5-12", [])
    assert (read.trigger, read.start, read.end, read.where) == (False, 5, 12, {"a": 1})
    assert [uri.rpartition("/")[2] for uri in read.files] == [
        "rows_0_9.parquet",
        "rows_10_19.parquet",
    ]


async def test_what_comes_meanwhile_is_read_by_the_next_attempt(plane: ControlPlane) -> None:
    await plane.deploy(READS)
    await plane.trigger(0, 9, "chain", "wake")
    first = await claimed_of(plane, "read")
    assert first.task.inputs[1].files == []
    await written(plane, 0, 9)
    await plane.complete(first, status="Failed", error_code="x", interrupted=True)
    plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE next_retry_at IS NOT NULL")
    await requeue_failed(plane.dispatcher.state)
    again = await claimed_of(plane, "read")
    assert len(again.task.inputs) == 2
    assert [uri.rpartition("/")[2] for uri in again.task.inputs[1].files] == ["rows_0_9.parquet"]


async def test_a_task_without_a_range_reads_all_of_it(plane: ControlPlane) -> None:
    await plane.deploy(READS)
    for start in (0, 10):
        await written(plane, start, start + 9)
    request = EmitRequest.model_validate({"dataset": "chain.wake", "events": [{"cursor": 3}]})
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, request)
    claimed = await claimed_of(plane, "read")
    assert len(claimed.task.inputs[1].files) == 2
    claims = plane.dispatcher.grants.tokens.read(claimed.capability_token)
    (place,) = claims.read_prefixes
    assert all(uri.startswith(place) for uri in claimed.task.inputs[1].files)


async def test_a_reader_may_say_that_what_it_reads_is_wrong(plane: ControlPlane) -> None:
    await plane.deploy(READS)
    await written(plane, 0, 9)
    await plane.trigger(0, 9, "chain", "wake")
    task = await claimed_of(plane, "read")
    read = task.task.inputs[1]
    wrong: dict[str, Any] = {
        "dataset_uuid": read.dataset_uuid,
        "dataset_version": read.dataset_version,
        "scope": "row_range",
        "start": 4,
        "end": 4,
        "reason": "it is not what the chain has",
    }
    await plane.complete(task, invalidations=[wrong])
    (found,) = plane.sql("SELECT remade, range_start FROM data_invalidations")
    assert found == {"remade": False, "range_start": 4}


async def test_a_job_needs_something_that_wakes_it(plane: ControlPlane) -> None:
    woken = "- { from: { job: wake } }\n"
    text = READS.replace(woken, "- { from: { job: wake }, trigger: false }\n")
    with pytest.raises(InvalidDag) as caught:
        await plane.deploy(text)
    assert "none of them wakes the job" in str(caught.value)


async def test_reading_more_changes_the_fingerprint_and_a_plain_edge_does_not(
    plane: ControlPlane,
) -> None:
    await plane.deploy(READS)
    before = plane.sql("SELECT fingerprint FROM generations WHERE job_name = 'read'")
    await plane.deploy(READS.replace("trigger: false, where: { a: 1 }", "where: { a: 1 }"))
    after = plane.sql("SELECT fingerprint FROM generations WHERE job_name = 'read'")
    assert len(before) == 1
    assert len(after) == 2


async def follow(plane: ControlPlane) -> Claimed:
    await plane.deploy(FOLLOW)
    await watch_sources(plane.dispatcher.state, 1.0)
    return await claimed_of(plane, "follow")


def table_of(source: Claimed, cursor: int) -> dict[str, Any]:
    output = source.task.outputs[0]
    return {
        "output_index": 0,
        "dataset_uuid": output.dataset_uuid,
        "dataset_version": output.dataset_version,
        "location": f"postgres_table:dataset_{output.dataset_uuid}",
        "cursor": cursor,
        "row_count": cursor,
    }


async def test_a_source_says_how_far_its_table_goes(plane: ControlPlane) -> None:
    source = await follow(plane)
    for cursor in (5, 9, 7):
        request = EventsRequest(**fence_fields(source), tables=[table_of(source, cursor)])
        await record_events(plane.dispatcher.state, request, plane.dispatcher.grants.trusts)
    (found,) = plane.sql("SELECT cursor FROM dataset_versions WHERE location IS NOT NULL")
    assert found["cursor"] == 9


async def test_a_source_cannot_speak_for_another_table(plane: ControlPlane) -> None:
    source = await follow(plane)
    wrong = table_of(source, 5) | {"location": f"postgres_table:dataset_{uuid4()}"}
    with pytest.raises(Forbidden):
        await record_events(
            plane.dispatcher.state,
            EventsRequest(**fence_fields(source), tables=[wrong]),
            plane.dispatcher.grants.trusts,
        )


async def test_a_table_is_read_with_the_files_of_its_cold_part(plane: ControlPlane) -> None:
    source = await follow(plane)
    await record_events(
        plane.dispatcher.state,
        EventsRequest(
            **fence_fields(source),
            tables=[table_of(source, 19)],
            events=[range_event(source, 0, 19)],
        ),
        plane.dispatcher.grants.trusts,
    )
    chunk = await claimed_of(plane, "chunks")
    assert chunk.task.inputs[0].table
    await plane.complete(chunk, events=[range_event(chunk, 0, 9), range_event(chunk, 10, 19)])
    await plane.settle()
    claimed = [await plane.claimed(task_id) for task_id in plane.wake_ups()]
    first, second = sorted(claimed, key=lambda each: each.task.inputs[0].start or 0)
    assert [given.table for given in first.task.inputs] == [False, True]
    assert first.task.inputs[1].files == []
    await plane.complete(first, outputs=[stage(plane.dispatcher.store, first, 0, 0, 9)])
    await plane.complete(second, status="Failed", error_code="x", interrupted=True)
    request = EventsRequest(**fence_fields(source), events=[range_event(source, 5, 30)])
    await record_events(plane.dispatcher.state, request, plane.dispatcher.grants.trusts)
    reader = await claimed_of(plane, "chunks")
    assert [uri.rpartition("/")[2] for uri in reader.task.inputs[0].files] == ["blocks_0_9.parquet"]


async def test_an_invalidation_with_an_id_is_one_in_all_attempts(plane: ControlPlane) -> None:
    source = await follow(plane)
    output = source.task.outputs[0]
    said: dict[str, Any] = {
        "dataset_uuid": output.dataset_uuid,
        "dataset_version": output.dataset_version,
        "scope": "row_range",
        "start": 4,
        "end": 4,
        "reason": "a reorg",
    }
    first, second = uuid4(), uuid4()
    for request_id in (first, first, second):
        request = EventsRequest(
            **fence_fields(source), invalidations=[said | {"request_id": request_id}]
        )
        await record_events(plane.dispatcher.state, request, plane.dispatcher.grants.trusts)
    assert len(plane.sql("SELECT * FROM data_invalidations")) == 2


async def test_a_task_that_is_too_large_becomes_several(plane: ControlPlane) -> None:
    whole = await plane.claimed(await plane.queued_ingest(0, 29))
    parts = [{"start": 0, "end": 9}, {"start": 10, "end": 29}]
    await plane.complete(whole, split=parts)
    await plane.settle()
    for task_id in plane.wake_ups():
        await committed(plane, await plane.claimed(task_id))
    keys = plane.sql("SELECT DISTINCT partition_key FROM partition_versions ORDER BY 1")
    assert [row["partition_key"] for row in keys] == ["0-9", "10-29"]


async def committed(plane: ControlPlane, task: Claimed) -> None:
    given = task.task.inputs[0]
    assert given.start is not None
    assert given.end is not None
    outputs = [stage(plane.dispatcher.store, task, i, given.start, given.end) for i in range(3)]
    await plane.complete(task, outputs=outputs)


@pytest.mark.parametrize(
    "parts",
    [
        [(0, 29)],
        [(0, 9), (11, 29)],
        [(0, 9), (5, 29)],
        [(0, 9), (10, 30)],
        [(10, 29), (0, 9)],
    ],
)
async def test_a_split_that_is_not_the_range_is_refused(
    plane: ControlPlane, parts: list[tuple[int, int]]
) -> None:
    whole = await plane.claimed(await plane.queued_ingest(0, 29))
    with pytest.raises(BadInput):
        await plane.complete(whole, split=[{"start": s, "end": e} for s, e in parts])
    assert plane.sql("SELECT count(*) AS n FROM tasks WHERE status = 'Completed'") == [{"n": 1}]


async def test_an_invalidation_waits_for_all_parts(plane: ControlPlane) -> None:
    first = await plane.claimed(await plane.queued_ingest(0, 29))
    parts = [{"start": 0, "end": 9}, {"start": 10, "end": 29}]
    await plane.complete(first, split=parts)
    await plane.settle()
    for task_id in plane.wake_ups():
        await committed(plane, await plane.claimed(task_id))
    request = InvalidateRequest(
        dataset="blocks", scope="row_range", start=3, end=4, reason="it is wrong"
    )
    await invalidate(plane.dispatcher.state, plane.dispatcher.org_id, request)
    await route_invalidations(plane.dispatcher.state)
    again = await claimed_of(plane, "ingest")
    await plane.complete(again, split=parts)
    await close_invalidations(plane.dispatcher.state)
    await plane.settle()
    for task_id in plane.wake_ups():
        assert plane.sql("SELECT processed_at FROM data_invalidations")[0]["processed_at"] is None
        await committed(plane, await plane.claimed(task_id))
        await close_invalidations(plane.dispatcher.state)
    assert plane.sql("SELECT processed_at FROM data_invalidations")[0]["processed_at"] is not None


async def test_a_part_that_failed_is_due_whatever_became_of_the_others(plane: ControlPlane) -> None:
    whole = await plane.claimed(await plane.queued_ingest(0, 29))
    await plane.complete(whole, split=[{"start": 0, "end": 9}, {"start": 10, "end": 29}])
    await plane.settle()
    claimed = [await plane.claimed(task_id) for task_id in plane.wake_ups()]
    first, last = sorted(claimed, key=lambda each: each.task.inputs[0].start or 0)
    await committed(plane, last)
    (memo,) = plane.sql(
        "SELECT i.event_id, i.generation_id FROM task_inputs i JOIN tasks t USING (generation_id)"
        " WHERE t.id = %s",
        first.task.task_id,
    )
    assert await looked_at(plane, **memo) == ("under_way", [])
    await plane.complete(first, status="Failed", error_code="x", retryable=False)
    assert await looked_at(plane, **memo) == ("due", [first.task.task_id])


async def looked_at(
    plane: ControlPlane, event_id: int, generation_id: UUID
) -> tuple[str, list[UUID]]:
    async with plane.dispatcher.state.transaction() as tx:
        states = await scopes.states(tx, generation_id, [event_id])
        found = await staleness.of_generations(tx, [generation_id])
    return states[event_id], list(found[generation_id].failed_task_ids)


async def test_a_task_that_was_canceled_has_no_parts(plane: ControlPlane) -> None:
    whole = await plane.claimed(await plane.queued_ingest(0, 29))
    await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, whole.task.task_id)
    for _ in range(2):  # the reply may get lost
        await plane.complete(whole, split=[{"start": 0, "end": 9}, {"start": 10, "end": 29}])
    (found,) = plane.sql("SELECT status FROM tasks WHERE id = %s", whole.task.task_id)
    assert found["status"] == "Canceled"
    assert plane.sql("SELECT id FROM tasks WHERE part_of IS NOT NULL") == []


REBUILT = READS.replace(
    "    inputs: [{ from: { job: request } }]\n",
    "    inputs: [{ from: { job: request }, where: { b: 1 } }]\n",
)


async def test_a_rebuild_reads_what_is_built_once_it_is(plane: ControlPlane) -> None:
    await plane.deploy(READS)
    await written(plane, 0, 9)
    await plane.trigger(0, 9, "chain", "wake")
    task = await claimed_of(plane, "read")
    await plane.complete(task, outputs=[stage(plane.dispatcher.store, task, 0, 0, 9)])
    await plane.deploy(REBUILT)
    await plane.settle()
    (task_id,) = plane.wake_ups()
    write = await plane.claimed(task_id)
    assert write.task.job.name == "write"
    assert await advance_deploys(plane.dispatcher.state) == 0
    await plane.complete(write, outputs=[stage(plane.dispatcher.store, write, 0, 0, 9)])
    await plane.settle()
    assert (await advance_deploys(plane.dispatcher.state), plane.wake_ups()) == (0, [])
    read = await claimed_of(plane, "read")
    assert [uri.rpartition("/")[0] + "/" for uri in read.task.inputs[1].files] == [
        write.task.outputs[0].prefix
    ]
    await plane.complete(read, outputs=[stage(plane.dispatcher.store, read, 0, 0, 9)])
    await plane.settle()
    assert await advance_deploys(plane.dispatcher.state) == 1
    (deploy,) = plane.sql("SELECT status, waiting FROM deploys ORDER BY id DESC LIMIT 1")
    assert deploy == {"status": "CutOver", "waiting": []}


async def test_what_is_committed_together_is_read_as_it_comes(plane: ControlPlane) -> None:
    both = READS.replace("{ from: { job: wake } }", "{ from: { job: write } }")
    await plane.deploy(both)
    await written(plane, 0, 9)
    task = await plane.claimed(plane.wake_ups()[0])
    await plane.complete(task, outputs=[stage(plane.dispatcher.store, task, 0, 0, 9)])
    changed = "inputs: [{ from: { job: request }, where: { b: 1 } }]"
    await plane.deploy(both.replace("inputs: [{ from: { job: request } }]", changed))
    await written_again(plane)
    read = await claimed_of(plane, "read")
    assert len(read.task.inputs[1].files) == 1


async def written_again(plane: ControlPlane) -> None:
    task = await claimed_of(plane, "write")
    await plane.complete(task, outputs=[stage(plane.dispatcher.store, task, 0, 0, 9)])
    await plane.settle()


async def test_with_nothing_to_build_a_version_is_active_at_once(plane: ControlPlane) -> None:
    await plane.deploy(READS)
    await plane.deploy(REBUILT)
    assert plane.sql("SELECT DISTINCT status FROM deploys") == [{"status": "CutOver"}]


READER = """\
name: other
jobs:
  - { name: wake, activation: source, source: { kind: manual }, outputs: [ranges] }
  - name: copy
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: wake } }, { from: { dataset: rows }, trigger: false }]
    outputs: [rows]
publish:
  copies: { from: { job: copy } }
"""


async def test_a_circle_through_what_is_only_read_is_refused(plane: ControlPlane) -> None:
    await plane.deploy(READS)
    await plane.deploy(READER)
    circle = "    inputs: [{ from: { job: request } }, { from: { dataset: copies } }]\n"
    with pytest.raises(InvalidDag) as caught:
        await plane.deploy(READS.replace("    inputs: [{ from: { job: request } }]\n", circle))
    assert "cycle" in str(caught.value)


async def test_what_a_version_that_is_built_has_committed_does_not_leave_the_table(
    plane: ControlPlane,
) -> None:
    source = await follow(plane)
    tables = [table_of(source, 29) | {"start": 0}]
    events = [range_event(source, 0, 29)]
    await record_events(
        plane.dispatcher.state,
        EventsRequest(**fence_fields(source), tables=tables, events=events),
        plane.dispatcher.grants.trusts,
    )
    chunk = await claimed_of(plane, "chunks")
    chunks = [range_event(chunk, start, start + 9) for start in (0, 10, 20)]
    await plane.complete(chunk, events=chunks)
    await plane.settle()
    for task_id in plane.wake_ups():
        task = await plane.claimed(task_id)
        await plane.complete(task, status="Failed", error_code="x", retryable=False)
    more = "outputs: [blocks, more]\npublish"
    await plane.deploy(FOLLOW.replace("outputs: [blocks]\npublish", more))
    await plane.settle()
    told = {}
    for task_id in plane.wake_ups():
        task = await plane.claimed(task_id)
        start = task.task.inputs[0].start or 0
        told[start] = task.task.inputs[1].files
        await plane.complete(
            task, outputs=[stage(plane.dispatcher.store, task, 0, start, start + 9)]
        )
    assert told == {0: [], 10: [], 20: []}


async def compacted(plane: ControlPlane) -> None:
    await plane.settle()
    for task_id in plane.wake_ups():
        task = await plane.claimed(task_id)
        start = task.task.inputs[0].start or 0
        await plane.complete(
            task, outputs=[stage(plane.dispatcher.store, task, 0, start, start + 9)]
        )
    await plane.settle()


async def chunked(plane: ControlPlane, source: Claimed, start: int, table_start: int) -> None:
    """Ten more blocks, and where the table begins."""
    tables = [table_of(source, start + 9) | {"start": table_start}]
    events = [range_event(source, start, start + 9)]
    await record_events(
        plane.dispatcher.state,
        EventsRequest(**fence_fields(source), tables=tables, events=events),
        plane.dispatcher.grants.trusts,
    )
    chunk = await claimed_of(plane, "chunks")
    await plane.complete(chunk, events=[range_event(chunk, start, start + 9)])


async def one_file(plane: ControlPlane, end: int) -> None:
    """The tasks that wait make one file of blocks 0 to `end`: chunks of another size."""
    await plane.settle()
    for task_id in plane.wake_ups():
        task = await plane.claimed(task_id)
        if task.task.job.name == "chunks":
            await plane.complete(task, events=[range_event(task, 0, end)])
        elif task.task.inputs[0].end == end:
            start = task.task.inputs[0].start or 0
            await plane.complete(task, outputs=[stage(plane.dispatcher.store, task, 0, start, end)])
        else:
            await plane.complete(task)
    await plane.settle()


@pytest.mark.parametrize("sizes", ["the same", "larger"])
async def test_the_only_files_of_what_has_left_a_table_are_not_purged(
    plane: ControlPlane, sizes: str
) -> None:
    source = await follow(plane)
    await chunked(plane, source, 0, 0)
    await compacted(plane)
    edge = "{ from: { job: chunks } }" if sizes == "the same" else "{ from: { job: follow } }"
    await plane.deploy(FOLLOW.replace(edge, edge.replace(" } }", " }, where: { a: 1 } }"), 1))
    if sizes == "the same":
        await compacted(plane)
    else:
        await one_file(plane, 9)
        await one_file(plane, 9)
    assert await advance_deploys(plane.dispatcher.state) == 1
    (now,) = plane.sql("SELECT current_version FROM datasets WHERE job_name = 'compact' LIMIT 1")
    if sizes == "the same":
        await chunked(plane, source, 10, 0)
        await compacted(plane)
    else:
        tables, events = [table_of(source, 19) | {"start": 0}], [range_event(source, 10, 19)]
        request = EventsRequest(**fence_fields(source), tables=tables, events=events)
        await record_events(plane.dispatcher.state, request, plane.dispatcher.grants.trusts)
        await one_file(plane, 19)
        await one_file(plane, 19)
    tables = [table_of(source, 29) | {"start": 20}]
    await record_events(
        plane.dispatcher.state,
        EventsRequest(**fence_fields(source), tables=tables),
        plane.dispatcher.grants.trusts,
    )
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "chain")
    dispatcher = plane.dispatcher

    async def purge() -> None:
        versions = [now["current_version"]]
        await purge_generations(
            dispatcher.state,
            dispatcher.data,
            dispatcher.store,
            "trace-data",
            dispatcher.org_id,
            "chain.compact",
            versions,
        )

    with pytest.raises(DatasetInUse) as caught:
        await purge()
    assert "has left" in str(caught.value)
    if sizes == "larger":
        chunk = await claimed_of(plane, "chunks")
        await plane.complete(chunk, events=[range_event(chunk, 10, 19)])
    await compacted(plane)
    await purge()
