"""From events to tasks: one per update, one per partition, or one for all that waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.dispatcher.tasks.test_claims import dag, emit, take
from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.domain.errors import UnknownDataset
from trace_platform.state import events
from trace_platform.wire.control import EmitRequest

pytestmark = pytest.mark.anyio

BULK = dag("d", work="execution_strategy: Bulk")
PER_PARTITION = dag("d", work="execution_strategy: PerPartition")


async def emit_partitions(plane: ControlPlane, *keys: str, version: Any = None) -> int:
    request = EmitRequest(
        dataset="d.source",
        dataset_version=version,
        events=[{"partition_key": key} for key in keys],  # type: ignore[list-item]
    )
    new = await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, request)
    await plane.settle()
    return new


def rematerialise(plane: ControlPlane, key: str) -> None:
    """The same partition once more, as a new commit of it would say."""
    plane.sql(
        "WITH e AS (INSERT INTO events (org_id, dataset_uuid, dataset_version, identity,"
        " partition_key, position) SELECT org_id, uuid, current_version,"
        " concat('partition:', %s::text, '@', gen_random_uuid()), %s, 1 FROM datasets"
        " WHERE job_name = 'source' RETURNING id) INSERT INTO outbox (kind, payload)"
        " SELECT 'route', jsonb_build_object('event_ids', jsonb_build_array(id)) FROM e",
        key,
        key,
    )


async def test_per_update_makes_a_task_for_each_event(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    await emit(plane, "d.source", 1, 2, 3)
    assert len(await take(plane, 10)) == 3


async def test_bulk_takes_in_what_arrives_until_it_starts(plane: ControlPlane) -> None:
    await plane.deploy(BULK)
    await emit(plane, "d.source", 1, 2)
    await emit(plane, "d.source", 3)
    (first,) = await take(plane, 10)
    assert [given.cursor for given in first.task.inputs] == [1, 2, 3]
    await emit(plane, "d.source", 4, 5)
    (second,) = await take(plane, 10)
    assert [given.cursor for given in second.task.inputs] == [4, 5]


async def test_bulk_loses_nothing_to_a_claim_at_the_same_moment(plane: ControlPlane) -> None:
    """Events and claims race; every event is in exactly one task that started."""
    await plane.deploy(BULK)
    seen: list[int | None] = []

    async def claim_and_finish() -> None:
        for claimed in await take(plane, 1):
            seen.extend(given.cursor for given in claimed.task.inputs)
            await plane.complete(claimed)

    for start in range(0, 200, 10):
        await asyncio.gather(
            emit(plane, "d.source", *range(start, start + 10)),
            *(claim_and_finish() for _ in range(3)),
        )
    while await take_and_see(plane, seen):
        pass
    assert sorted(seen) == list(range(200))  # type: ignore[type-var]


async def take_and_see(plane: ControlPlane, seen: list[int | None]) -> int:
    claims = await take(plane, 10)
    for claimed in claims:
        seen.extend(given.cursor for given in claimed.task.inputs)
        await plane.complete(claimed)
    return len(claims)


async def test_a_retried_bulk_task_takes_in_no_more(plane: ControlPlane) -> None:
    """Its attempt may still be at work and end well: it must not end what it never saw."""
    await plane.deploy(BULK)
    await emit(plane, "d.source", 1)
    (first,) = await take(plane, 1)
    await plane.complete(first, status="Failed", error_code="x", interrupted=True)
    await emit(plane, "d.source", 2)
    rows = plane.sql("SELECT inputs FROM tasks ORDER BY id")
    assert [[i["cursor"] for i in row["inputs"]] for row in rows] == [[1], [2]]


async def test_a_canceled_bulk_task_takes_in_no_more(plane: ControlPlane) -> None:
    await plane.deploy(BULK)
    await emit(plane, "d.source", 1)
    (task,) = plane.sql("SELECT id FROM tasks")
    await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, task["id"])
    await emit(plane, "d.source", 2)
    (claimed,) = await take(plane, 5)
    assert [given.cursor for given in claimed.task.inputs] == [2]


async def test_a_full_bulk_task_is_followed_by_another(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_INPUTS", 3)
    await plane.deploy(BULK)
    for cursor in range(8):
        await emit(plane, "d.source", cursor)
    assert [len(c.task.inputs) for c in await take(plane, 10)] == [3, 3, 2]


async def test_a_partition_that_changes_before_its_task_starts_is_one_task(
    plane: ControlPlane,
) -> None:
    await plane.deploy(PER_PARTITION)
    await emit_partitions(plane, "a", "b")
    rematerialise(plane, "a")
    await plane.settle()
    claims = await take(plane, 10)
    assert sorted(str(c.task.inputs[0].partition_key) for c in claims) == ["a", "b"]
    rematerialise(plane, "a")
    await plane.settle()
    assert len(await take(plane, 10)) == 1


async def test_a_partition_of_two_datasets_is_two_updates(plane: ControlPlane) -> None:
    await plane.deploy(
        "name: d\njobs:\n"
        "  - { name: source, activation: source, source: { kind: manual }, outputs: 2 }\n"
        "  - { name: work, activation: reactive, runtime: ecs_platform, operator: no_op,"
        " execution_strategy: PerPartition, inputs:"
        " [{ from: { job: source, output: 0 } }, { from: { job: source, output: 1 } }] }\n"
    )
    for dataset in ("d.source.0", "d.source.1"):
        request = EmitRequest(dataset=dataset, events=[{"partition_key": "p"}])  # type: ignore[list-item]
        await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, request)
    await plane.settle()
    claims = await take(plane, 10)
    assert sorted(c.task.inputs[0].input_index for c in claims) == [0, 1]


async def test_very_many_events_at_once_are_several_bulk_tasks(plane: ControlPlane) -> None:
    await plane.deploy(BULK)
    await emit(plane, "d.source", *range(2_500))
    claims = await take(plane, 10)
    assert sorted(len(c.task.inputs) for c in claims) == [500, 1000, 1000]
    seen = sorted(given.cursor or 0 for c in claims for given in c.task.inputs)
    assert seen == list(range(2_500))
    assert all(len(c.capability_token) < 5_000 for c in claims)


async def test_an_event_that_comes_again_after_it_was_forgotten_holds_up_nobody(
    plane: ControlPlane,
) -> None:
    await plane.deploy(BULK)
    await emit(plane, "d.source", 1)
    await take(plane, 1)
    plane.sql("DELETE FROM events")
    await emit(plane, "d.source", 1, 2)
    (claimed,) = await take(plane, 5)
    assert [given.cursor for given in claimed.task.inputs] == [2]


async def test_a_cursor_wakes_no_job_that_works_by_partition(plane: ControlPlane) -> None:
    await plane.deploy(PER_PARTITION)
    await emit(plane, "d.source", 1)
    assert await take(plane, 10) == []


async def test_an_older_generation_is_recorded_and_not_routed(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    (old,) = plane.sql("SELECT uuid, current_version AS v FROM datasets WHERE job_name = 'source'")
    await plane.deploy(
        dag("d", work="").replace(
            "source: { kind: manual }",
            "source: { kind: manual }, bootstrap: { reset_outputs: true }",
        )
    )
    assert await emit_partitions(plane, "a", version=old["v"]) == 1
    assert len(plane.sql("SELECT 1 FROM events")) == 1
    assert await take(plane, 10) == []


async def test_an_unknown_dataset_is_named_and_nothing_changes(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    with pytest.raises(UnknownDataset) as caught:
        await emit(plane, "nowhere", 1)
    assert "DAG.JOB" in str(caught.value.hint)
    assert plane.sql("SELECT 1 FROM events") == []


async def test_a_filter_travels_with_the_input(plane: ControlPlane) -> None:
    yaml = dag("d", work="").replace(
        "inputs: [{ from: { job: source } }]",
        "inputs: [{ from: { job: source }, where: { chain_id: 1, address: null } }]",
    )
    await plane.deploy(yaml)
    await emit(plane, "d.source", 1)
    (claimed,) = await take(plane, 1)
    assert claimed.task.inputs[0].where == {"chain_id": 1, "address": None}
