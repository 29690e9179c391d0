"""What is invalid is put right: by whom, once, as far as it reaches, and not before it is done."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.control_plane import ControlPlane, fence_fields, range_event, stage
from tests.support.range_work import span, work
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.events.record_events import record_events
from trace_platform.dispatcher.redo.invalidate import NOTHING_UPSTREAM, invalidate
from trace_platform.dispatcher.redo.list_invalidations import list_invalidations
from trace_platform.dispatcher.redo.process_invalidations import close_invalidations
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import Conflict, Forbidden, StaleFence, UnknownDataset
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.invalidation import InvalidateRequest, InvalidateResponse
from trace_platform.wire.task import Claimed, EventsRequest

pytestmark = pytest.mark.anyio

DAG = """
name: flow
defaults: { max_attempts: 1 }
jobs:
  - { name: request, activation: source, source: { kind: manual }, outputs: [ranges] }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [blocks]
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: ingest } }]
    outputs: [rows]
  - name: count
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: ingest } }]
    outputs: [sums]
"""


async def take(plane: ControlPlane, n: int = 100, *, sources: bool = False) -> list[Claimed]:
    found = await claim_tasks(
        plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", ["w"] * n, sources=sources
    )
    return [claimed for _, claimed in found]


async def commit(plane: ControlPlane, claimed: Claimed) -> None:
    outputs = [stage(plane.dispatcher.store, claimed, 0, *span(claimed))]
    await plane.complete(claimed, outputs=outputs)


async def run_all(plane: ControlPlane) -> list[tuple[str, int, int]]:
    """Route and commit until nothing is left; what ran."""
    ran: list[tuple[str, int, int]] = []
    while True:
        await plane.settle()
        claims = await take(plane)
        if not claims:
            return sorted(ran)
        for claimed in claims:
            await commit(plane, claimed)
        ran += work(claims)


async def filled(plane: ControlPlane, *ranges: tuple[int, int], yaml: str = DAG) -> None:
    """All of the DAG done for these ranges."""
    await plane.deploy(yaml)
    for start, end in ranges:
        await plane.trigger(start, end, "flow", "request")
    await run_all(plane)


async def say(plane: ControlPlane, dataset: str, *part: Any, **fields: Any) -> InvalidateResponse:
    """By hand: a range, or a partition's key."""
    scope: dict[str, Any] = {"scope": "partition", "partition_key": part[0]}
    if len(part) == 2:
        scope = {"scope": "row_range", "start": part[0], "end": part[1]}
    request = InvalidateRequest(dataset=dataset, **(scope | {"reason": "wrong"} | fields))
    return await invalidate(plane.dispatcher.state, plane.dispatcher.org_id, request)


async def route(plane: ControlPlane) -> int:
    routed = await route_invalidations(plane.dispatcher.state)
    await plane.settle()
    return routed


def of_output(claimed: Claimed, start: int, end: int, output: int = 0) -> dict[str, Any]:
    target = claimed.task.outputs[output]
    return part_of(target.dataset_uuid, target.dataset_version, start, end)


def of_input(claimed: Claimed, start: int, end: int) -> dict[str, Any]:
    given = claimed.task.inputs[0]
    return part_of(given.dataset_uuid, given.dataset_version, start, end)


def part_of(dataset: UUID, version: UUID, start: int, end: int) -> dict[str, Any]:
    return {
        "dataset_uuid": dataset,
        "dataset_version": version,
        "scope": "row_range",
        "start": start,
        "end": end,
        "reason": "reorg",
    }


async def report(plane: ControlPlane, claimed: Claimed, *invalid: dict[str, Any]) -> int:
    request = EventsRequest(**fence_fields(claimed), invalidations=list(invalid))
    return await record_events(plane.dispatcher.state, request, plane.dispatcher.grants.trusts)


async def states(plane: ControlPlane) -> list[tuple[str, int, int]]:
    """Of each: its state, its tasks, and how many are done."""
    found = await list_invalidations(
        plane.dispatcher.state, plane.dispatcher.org_id, None, 100, open_only=False
    )
    return [(each.state, each.tasks, each.tasks_done) for each in found.invalidations]


async def test_what_a_source_made_is_read_again_by_all_its_readers(plane: ControlPlane) -> None:
    await filled(plane, (0, 9), (10, 19))
    answer = await say(plane, "flow.request", 0, 9)
    assert (answer.new, answer.remade, answer.jobs) == (True, True, ["flow.ingest"])
    assert await states(plane) == [("waiting", 0, 0)]
    await route(plane)
    (claimed,) = await take(plane)
    assert work([claimed]) == [("ingest", 0, 9)]
    assert claimed.task.inputs[0].invalidation == answer.invalidation_id
    assert await states(plane) == [("open", 1, 0)]
    await commit(plane, claimed)
    assert await states(plane) == [("processed", 1, 1)]
    # What it made is new, and goes on by itself.
    assert await run_all(plane) == [("count", 0, 9), ("decode", 0, 9)]


async def test_what_a_job_made_it_makes_anew_and_its_readers_follow(plane: ControlPlane) -> None:
    await filled(plane, (0, 9), (10, 19), (20, 29))
    answer = await say(plane, "flow.ingest", 5, 14)
    assert (answer.remade, answer.jobs, answer.note) == (False, ["flow.ingest"], None)
    await route(plane)
    first, second = await take(plane)
    assert work([first, second]) == [("ingest", 0, 9), ("ingest", 10, 19)]
    await commit(plane, first)
    assert await states(plane) == [("open", 2, 1)]
    await commit(plane, second)
    assert await states(plane) == [("processed", 2, 2)]
    assert await run_all(plane) == [
        ("count", 0, 9), ("count", 10, 19), ("decode", 0, 9), ("decode", 10, 19),
    ]  # fmt: skip


async def test_a_part_that_nothing_upstream_holds_is_processed_and_says_so(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9))
    answer = await say(plane, "flow.ingest", 50, 59)
    assert (answer.jobs, answer.note) == ([], NOTHING_UPSTREAM)
    await route(plane)
    found = await list_invalidations(
        plane.dispatcher.state, plane.dispatcher.org_id, None, 1, open_only=False
    )
    (only,) = found.invalidations
    assert (only.state, only.note) == ("processed", NOTHING_UPSTREAM)
    assert await take(plane) == []


async def test_a_part_whose_input_is_not_routed_yet_is_made_anew(plane: ControlPlane) -> None:
    """Its producer has read what waits to be routed: nothing but the invalidation would have it
    read that again."""
    await plane.deploy(DAG)
    await plane.trigger(0, 9, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await commit(plane, ingest)
    await plane.settle()
    await say(plane, "flow.request", 0, 9)
    await route(plane)
    claims = {claimed.task.job.name: claimed for claimed in await take(plane)}
    await plane.complete(claims["decode"], status="Failed", error_code="x", interrupted=True)
    await commit(plane, claims["ingest"])
    await requeue_failed(plane.dispatcher.state)
    (decode,) = await take(plane)
    await commit(plane, decode)
    answer = await say(plane, "flow.decode", 0, 9)
    assert (answer.jobs, answer.note) == (["flow.decode"], None)
    await route_invalidations(plane.dispatcher.state)
    await run_all(plane)
    assert made_by(plane, "decode") != [decode.task.task_id]
    assert [state for state, _, _ in await states(plane)] == ["processed"] * 2


def made_by(plane: ControlPlane, job: str) -> list[UUID]:
    """The tasks that made what is current of a job."""
    rows = plane.sql(
        "SELECT p.task_id FROM partition_versions p JOIN datasets d ON d.uuid = p.dataset_uuid"
        " WHERE d.job_name = %s AND p.superseded_at IS NULL ORDER BY p.range_start",
        job,
    )
    return [row["task_id"] for row in rows]


async def test_what_nobody_reads_is_processed_at_once(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await plane.deploy(
        "name: lonely\njobs:\n  - { name: s, activation: source, source: { kind: manual } }\n"
    )
    assert (await say(plane, "lonely.s", 0, 9)).note == "nobody reads it"
    await route(plane)
    assert await states(plane) == [("processed", 0, 0)]
    assert plane.sql("SELECT 1 FROM tasks") == []


async def test_a_chain_of_many_that_overlap_becomes_one_task_for_each_reader(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 1009))
    for n in range(100):
        await say(plane, "flow.request", 10 * n, 10 * n + 10)
    assert await route(plane) == 100
    leads = plane.sql("SELECT * FROM data_invalidations WHERE merged_into IS NULL")
    (lead,) = leads
    assert (lead["range_start"], lead["range_end"]) == (0, 1000)
    (claimed,) = await take(plane)
    assert claimed.task.inputs[0].invalidation == lead["id"]
    await commit(plane, claimed)
    assert {state for state, _, _ in await states(plane)} == {"processed"}


async def test_what_touches_is_one_and_what_lies_apart_is_not(plane: ControlPlane) -> None:
    await filled(plane, (0, 9), (10, 19), (30, 39))
    for start, end in ((0, 9), (10, 19), (30, 39)):
        await say(plane, "flow.request", start, end)
    await route(plane)
    assert work(await take(plane)) == [("ingest", 0, 19), ("ingest", 30, 39)]


async def test_both_kinds_of_one_dataset_stay_apart(plane: ControlPlane) -> None:
    await filled(plane, (0, 9))
    await plane.trigger(10, 19, "flow", "request")
    await plane.settle()
    (claimed,) = await take(plane)
    await report(plane, claimed, of_output(claimed, 0, 9))
    await say(plane, "flow.ingest", 0, 9)
    await route(plane)
    assert work(await take(plane)) == [("count", 0, 9), ("decode", 0, 9), ("ingest", 0, 9)]


async def test_what_cuts_partitions_of_its_readers_reaches_to_their_borders(
    plane: ControlPlane,
) -> None:
    """A partition is replaced as a whole: a task for a part of one could not commit."""
    await filled(plane, (0, 9), (10, 19), (20, 29))
    await say(plane, "flow.request", 5, 12)
    await route(plane)
    assert await run_all(plane) == [("count", 0, 19), ("decode", 0, 19), ("ingest", 0, 19)]
    assert await states(plane) == [("processed", 1, 1)]


async def test_an_attempt_says_of_its_output_that_it_rewrote_it(plane: ControlPlane) -> None:
    await filled(plane, (0, 9))
    await plane.trigger(10, 19, "flow", "request")
    await plane.settle()
    (claimed,) = await take(plane)
    invalid = of_output(claimed, 3, 6)
    assert [await report(plane, claimed, invalid), await report(plane, claimed, invalid)] == [1, 0]
    await plane.complete(claimed, invalidations=[invalid])
    await route(plane)
    assert work(await take(plane)) == [("count", 0, 9), ("decode", 0, 9)]
    assert [row["remade"] for row in plane.sql("SELECT * FROM data_invalidations")] == [True]


async def test_an_attempt_says_of_its_input_that_it_is_wrong(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await plane.trigger(0, 9, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await commit(plane, ingest)
    await plane.settle()
    check, other = sorted(await take(plane), key=lambda c: c.task.job.name)
    await plane.complete(
        check,
        status="Failed",
        retryable=False,
        error_code="bad_input",
        invalidations=[of_input(check, 0, 9)],
    )
    await commit(plane, other)
    await route(plane)
    assert work(await take(plane)) == [("ingest", 0, 9)]


async def test_what_an_attempt_neither_reads_nor_writes_is_not_its_business(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9))
    await plane.trigger(10, 19, "flow", "request")
    await plane.settle()
    (claimed,) = await take(plane)
    (foreign,) = plane.sql("SELECT uuid, current_version FROM datasets WHERE job_name = 'decode'")
    invalid = part_of(foreign["uuid"], foreign["current_version"], 0, 9)
    with pytest.raises(Forbidden):
        await report(plane, claimed, invalid)
    for outputs in ([], [stage(plane.dispatcher.store, claimed, 0, 10, 19)]):
        with pytest.raises(Forbidden):
            await plane.complete(claimed, outputs=outputs, invalidations=[invalid])
    assert plane.sql("SELECT count(*) AS n FROM data_invalidations") == [{"n": 0}]
    assert plane.sql("SELECT status FROM tasks WHERE id = %s", claimed.task.task_id) == [
        {"status": "Running"}
    ]


async def test_without_its_fence_an_attempt_invalidates_nothing(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await plane.trigger(0, 9, "flow", "request")
    await plane.settle()
    (claimed,) = await take(plane)
    stale = claimed.model_copy(update={"lease_token": uuid4()})
    with pytest.raises(StaleFence):
        await report(plane, stale, of_output(claimed, 0, 9))
    with pytest.raises(StaleFence):
        await plane.complete(stale, invalidations=[of_output(claimed, 0, 9)])
    assert plane.sql("SELECT count(*) AS n FROM data_invalidations") == [{"n": 0}]


async def test_the_same_request_twice_is_one_and_another_under_its_id_is_refused(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9))
    request_id = uuid4()
    first = await say(plane, "flow.request", 0, 9, request_id=request_id)
    await route(plane)
    again = await say(plane, "flow.request", 0, 9, request_id=request_id)
    assert (first.invalidation_id, again.invalidation_id) == (request_id, request_id)
    assert (first.new, again.new) == (True, False)
    assert await route(plane) == 0
    with pytest.raises(Conflict):
        await say(plane, "flow.ingest", 0, 9, request_id=request_id)
    with pytest.raises(UnknownDataset):
        await say(plane, "flow.nothing", 0, 9)


async def test_it_is_processed_only_when_all_readers_completed(plane: ControlPlane) -> None:
    await filled(plane, (0, 9))
    await plane.trigger(10, 19, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await report(plane, ingest, of_output(ingest, 0, 9))
    await route(plane)
    count, decode = sorted(await take(plane), key=lambda c: c.task.job.name)
    await commit(plane, count)
    assert await states(plane) == [("open", 2, 1)]
    await plane.complete(decode, status="Failed", retryable=False)
    await close_invalidations(plane.dispatcher.state)
    assert await states(plane) == [("open", 2, 1)]
    await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, decode.task.task_id)
    await plane.settle()
    await commit(plane, await plane.claimed(decode.task.task_id))
    assert await states(plane) == [("processed", 2, 2)]


async def test_two_readers_that_complete_at_once_leave_it_processed(plane: ControlPlane) -> None:
    await filled(plane, (0, 9))
    await plane.trigger(10, 19, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await report(plane, ingest, of_output(ingest, 0, 9))
    await route(plane)
    await asyncio.gather(*(commit(plane, claimed) for claimed in await take(plane)))
    assert await states(plane) == [("processed", 2, 2)]


async def test_a_canceled_task_leaves_it_open_and_the_listing_names_it(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9))
    await say(plane, "flow.request", 0, 9)
    await route(plane)
    (task,) = plane.sql("SELECT id FROM tasks WHERE status = 'Queued'")
    await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, task["id"])
    await close_invalidations(plane.dispatcher.state)
    found = await list_invalidations(
        plane.dispatcher.state, plane.dispatcher.org_id, "flow.request", 10, open_only=True
    )
    (only,) = found.invalidations
    assert (only.state, only.failed_task_id) == ("open", task["id"])


async def test_a_task_that_has_not_started_stands_for_what_it_covers(plane: ControlPlane) -> None:
    await filled(plane, (0, 9), (10, 19))
    await say(plane, "flow.request", 0, 19)
    await route(plane)
    await say(plane, "flow.request", 10, 19)
    await route(plane)
    (claimed,) = await take(plane)
    assert work([claimed]) == [("ingest", 0, 19)]
    assert await states(plane) == [("open", 1, 0), ("open", 1, 0)]
    # One that runs may have read it before: another task has to.
    await say(plane, "flow.request", 0, 9)
    await route(plane)
    assert work(await take(plane)) == [("ingest", 0, 9)]
    await commit(plane, claimed)
    assert await states(plane) == [("open", 1, 0), ("processed", 1, 1), ("processed", 1, 1)]


async def test_a_producers_task_that_has_not_started_stands_for_another(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9), (10, 19))
    await say(plane, "flow.ingest", 0, 9)
    await route(plane)
    await say(plane, "flow.ingest", 0, 19)
    await route(plane)
    assert await states(plane) == [("open", 2, 0), ("open", 1, 0)]
    assert [job for job, _, _ in await run_all(plane)].count("ingest") == 2
    assert await states(plane) == [("processed", 2, 2), ("processed", 1, 1)]


async def test_ranges_that_are_passed_on_are_passed_on_again(plane: ControlPlane) -> None:
    """A splitter writes no data: what it emits is the same as before, and has to be done again."""
    yaml = DAG.replace(
        "  - name: ingest\n",
        "  - name: split\n    activation: reactive\n    runtime: ecs_platform\n"
        "    operator: no_op\n    inputs: [{ from: { job: request } }]\n"
        "    outputs: [chunks]\n  - name: ingest\n",
    ).replace(
        "inputs: [{ from: { job: request } }]\n    outputs: [blocks]",
        "inputs: [{ from: { job: split } }]\n    outputs: [blocks]",
    )
    await plane.deploy(yaml)

    async def split_and_run() -> list[tuple[str, int, int]]:
        await plane.settle()
        (split,) = await take(plane)
        start, end = span(split)
        chunks = [range_event(split, c.start, c.end) for c in BlockRange(start, end).split(10)]
        await plane.complete(split, events=chunks)
        return await run_all(plane)

    await plane.trigger(0, 29, "flow", "request")
    await split_and_run()
    await say(plane, "flow.request", 5, 14)
    await route(plane)
    ran = await split_and_run()
    assert [each for each in ran if each[0] == "ingest"] == [("ingest", 0, 9), ("ingest", 10, 19)]
    await say(plane, "flow.split", 20, 29)
    await route(plane)
    assert [each for each in await split_and_run() if each[0] == "decode"] == [
        ("decode", 0, 9), ("decode", 10, 19), ("decode", 20, 29),
    ]  # fmt: skip
    assert {state for state, _, _ in await states(plane)} == {"processed"}


async def test_during_a_deploy_it_is_held_and_given_to_the_version_that_follows(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9))
    dispatcher = plane.dispatcher
    changed = DAG.replace(
        "operator: no_op\n    inputs: [{ from: { job: ingest } }]\n    outputs: [rows]",
        "operator: no_op\n    config: { emit: true }\n"
        "    inputs: [{ from: { job: ingest } }]\n    outputs: [rows]",
    )
    assert changed != DAG
    deployed = await deploy_dag(dispatcher.state, dispatcher.org_id, changed, "dag.yaml")
    assert (deployed.status, deployed.builds) == ("Building", ["decode"])
    await plane.settle()
    (building,) = await take(plane)
    await plane.trigger(10, 19, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await report(plane, ingest, of_output(ingest, 0, 9))
    await route(plane)
    (count,) = await take(plane)
    assert work([count]) == [("count", 0, 9)]
    await commit(plane, count)
    # The other reader is being rebuilt.
    await close_invalidations(dispatcher.state)
    assert await states(plane) == [("open", 1, 1)]
    await commit(plane, building)
    await plane.settle()
    assert await advance_deploys(dispatcher.state) == 1
    await plane.settle()
    assert work(await take(plane)) == [("decode", 0, 9)]


async def test_what_a_version_that_gave_way_had_to_do_for_it_is_done_with(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9))
    await say(plane, "flow.ingest", 0, 9)
    await route(plane)
    assert await states(plane) == [("open", 1, 0)]
    changed = DAG.replace("operator: no_op", "operator: no_op\n    config: { emit: true }", 1)
    await deploy_dag(plane.dispatcher.state, plane.dispatcher.org_id, changed, "dag.yaml")
    await close_invalidations(plane.dispatcher.state)
    assert await states(plane) == [("open", 1, 0)], "the one before still serves"
    late: list[Claimed] = []
    for _ in range(3):
        await plane.settle()
        for claimed in await take(plane):
            if claimed.task.inputs[0].invalidation is None:
                await commit(plane, claimed)
            else:
                late.append(claimed)
    await plane.settle()
    assert await advance_deploys(plane.dispatcher.state) == 1
    await commit(plane, late[0])
    assert await states(plane) == [("open", 1, 0)], "it was superseded, and completes nothing"
    assert await close_invalidations(plane.dispatcher.state) == 1
    assert await states(plane) == [("processed", 1, 1)]


async def test_while_its_producer_is_rebuilt_a_part_that_is_to_be_made_anew_waits(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9))
    changed = DAG.replace("operator: no_op", "operator: no_op\n    config: { emit: true }", 1)
    await deploy_dag(plane.dispatcher.state, plane.dispatcher.org_id, changed, "dag.yaml")
    await say(plane, "flow.ingest", 0, 9)
    assert await route(plane) == 0
    assert await states(plane) == [("waiting", 0, 0)]
    # The version before goes on, and so does this.
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "flow")
    assert await route(plane) == 1
    assert await states(plane) == [("open", 1, 0)]
    assert ("ingest", 0, 9) in await run_all(plane)
    assert await states(plane) == [("processed", 1, 1)]


TABLE = (
    DAG.replace("outputs: [rows]", "outputs: [rows]\n    STRATEGY")
    + """
  - name: below
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: decode } }]
    outputs: [alerts]
"""
)


@pytest.mark.parametrize(
    ("strategy", "cascades"),
    [
        ("update_strategy: replace", True),
        ("update_strategy: append\n    unique_key: [hash]", False),
    ],
)
async def test_a_table_that_is_replaced_invalidates_what_follows_and_one_that_grows_does_not(
    plane: ControlPlane, strategy: str, cascades: bool
) -> None:
    await plane.deploy(TABLE.replace("STRATEGY", strategy))
    await plane.trigger(0, 9, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await commit(plane, ingest)
    await plane.settle()
    for claimed in await take(plane):
        if claimed.task.job.name == "decode":
            await plane.complete(claimed, outputs=[table(claimed, 9)])
        else:
            await commit(plane, claimed)
    await plane.settle()
    for claimed in await take(plane):
        await plane.complete(claimed)
    await plane.trigger(10, 19, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await report(plane, ingest, of_output(ingest, 3, 6))
    await route(plane)
    count, decode = sorted(await take(plane), key=lambda c: c.task.job.name)
    await commit(plane, count)
    await plane.complete(decode, outputs=[table(decode, 9)])
    cascaded = plane.sql(
        "SELECT * FROM data_invalidations WHERE cause_task_id = %s", decode.task.task_id
    )
    assert [(row["range_start"], row["range_end"], row["remade"]) for row in cascaded] == (
        [(*span(decode), True)] if cascades else []
    )
    await route(plane)
    assert work(await take(plane)) == ([("below", *span(decode))] if cascades else [])


async def test_a_table_of_files_that_were_made_anew_invalidates_what_follows(
    plane: ControlPlane,
) -> None:
    """Its cursor is where it was: that would tell nobody."""
    await plane.deploy(TABLE.replace("STRATEGY", "update_strategy: replace"))

    async def ran() -> list[str]:
        names: list[str] = []
        while True:
            await route(plane)
            claims = await take(plane)
            if not claims:
                return sorted(names)
            for claimed in claims:
                outputs = [stage(plane.dispatcher.store, claimed, 0, 0, 9)]
                if claimed.task.job.name in ("decode", "below"):
                    outputs = [table(claimed, 9)]
                await plane.complete(claimed, outputs=outputs)
                names.append(claimed.task.job.name)

    await plane.trigger(0, 9, "flow", "request")
    assert await ran() == ["below", "count", "decode", "ingest"]
    await say(plane, "flow.ingest", 0, 9)
    assert await ran() == ["below", "count", "decode", "ingest"]
    assert {state for state, _, _ in await states(plane)} == {"processed"}


def table(claimed: Claimed, cursor: int) -> dict[str, Any]:
    target = claimed.task.outputs[0]
    return {
        "output_index": 0,
        "dataset_uuid": target.dataset_uuid,
        "dataset_version": target.dataset_version,
        "location": f"postgres_table:dataset_{target.dataset_uuid}",
        "cursor": cursor,
        "row_count": 5,
    }


async def test_a_partition_that_is_no_range_is_found_by_its_key(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    day: Any = [{"partition_key": "2024-05-01"}]
    emitted = EmitRequest(dataset="flow.request", events=day)
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, emitted)
    await plane.settle()
    (claimed,) = await take(plane)
    await plane.complete(claimed)
    await say(plane, "flow.request", "2024-05-01")
    await say(plane, "flow.request", "2024-05-01")
    await say(plane, "flow.ingest", "2024-05-01")
    await route(plane)
    tasks = await take(plane)
    assert [c.task.inputs[0].partition_key for c in tasks] == ["2024-05-01"] * 2
    for claimed in tasks:
        await plane.complete(claimed)
    assert {state for state, _, _ in await states(plane)} == {"processed"}


async def test_two_dispatchers_route_each_once(plane: ControlPlane) -> None:
    await filled(plane, (0, 99))
    for n in range(20):
        await say(plane, "flow.request", 5 * n, 5 * n + 1)
    state = plane.dispatcher.state
    routed = await asyncio.gather(*(route_invalidations(state) for _ in range(4)))
    assert sum(routed) == 20
    await plane.settle()
    events = plane.sql("SELECT * FROM events WHERE invalidation_id IS NOT NULL")
    assert len(events) == 20


RANGES = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 8)).map(lambda r: (r[0], r[0] + r[1])),
    min_size=1,
    max_size=8,
)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(rounds=st.lists(RANGES, min_size=1, max_size=3))
async def test_no_block_is_lost_and_none_is_touched_that_nobody_named(
    plane: ControlPlane, rounds: list[list[tuple[int, int]]]
) -> None:
    """Of a dataset whose readers wrote nothing yet, whatever is merged with or linked to what."""
    plane.sql("TRUNCATE data_invalidations, invalidation_tasks, task_inputs, events, outbox")
    plane.sql("TRUNCATE tasks, task_attempts CASCADE")
    await plane.deploy(DAG)
    named: set[int] = set()
    for ranges in rounds:
        for start, end in ranges:
            named |= set(range(start, end + 1))
            await say(plane, "flow.request", start, end)
        await route(plane)
    claims = await take(plane)
    assert {b for c in claims for b in range(span(c)[0], span(c)[1] + 1)} == named
    for claimed in claims:
        await plane.complete(claimed)
    assert {state for state, _, _ in await states(plane)} == {"processed"}
