"""A job works through a range once more: as planned, a few tasks at a time, behind all the rest."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.control_plane import ControlPlane, range_event, stage
from tests.support.range_work import span, work
from trace_platform.dispatcher.redo.advance_backfills import advance_backfills
from trace_platform.dispatcher.redo.control_backfill import Verb, control_backfill
from trace_platform.dispatcher.redo.invalidate import invalidate
from trace_platform.dispatcher.redo.plan_backfill import plan_backfill
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.redo.show_backfill import list_backfills, show_backfill
from trace_platform.dispatcher.redo.start_backfill import start_backfill
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.domain.errors import BadInput, Conflict, DeployInProgress, NotFound
from trace_platform.wire.backfill import (
    BackfillAction,
    BackfillDetail,
    BackfillPlan,
    BackfillRange,
    BackfillRequest,
)
from trace_platform.wire.invalidation import InvalidateRequest
from trace_platform.wire.task import Claimed

pytestmark = pytest.mark.anyio

LOW = 2
DAG = """
name: flow
defaults: { max_attempts: 1 }
jobs:
  - { name: request, activation: source, source: { kind: manual }, outputs: [ranges] }
  - { name: follow, activation: source, source: { kind: always_on }, runtime: ecs_platform,
      operator: no_op, outputs: [heads] }
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
    inputs: [{ from: { job: ingest }, where: { chain: 1 } }]
    outputs: [rows]
  - name: count
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: decode } }]
    outputs: [sums]
"""


async def take(plane: ControlPlane, n: int = 100) -> list[Claimed]:
    found = await claim_tasks(
        plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", ["w"] * n
    )
    return [claimed for _, claimed in found if claimed.task.job.name != "follow"]


async def commit(plane: ControlPlane, claimed: Claimed) -> None:
    await plane.complete(
        claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, *span(claimed))]
    )


async def run_all(plane: ControlPlane) -> list[tuple[str, int, int]]:
    ran: list[tuple[str, int, int]] = []
    while True:
        await plane.settle()
        claims = await take(plane)
        if not claims:
            return sorted(ran)
        for claimed in claims:
            await commit(plane, claimed)
        ran += work(claims)


async def filled(plane: ControlPlane, parts: int, yaml: str = DAG) -> None:
    """All of the DAG done for so many partitions of ten blocks."""
    await plane.deploy(yaml)
    for n in range(parts):
        await plane.trigger(10 * n, 10 * n + 9, "flow", "request")
    await run_all(plane)


def asked(job: str, start: int, end: int, **fields: Any) -> dict[str, Any]:
    return {"dag_name": "flow", "job_name": job, "start": start, "end": end} | fields


async def plan(plane: ControlPlane, *what: Any, **fields: Any) -> BackfillPlan:
    return await plan_backfill(
        plane.dispatcher.state, plane.dispatcher.org_id, BackfillRange(**asked(*what, **fields))
    )


async def start(plane: ControlPlane, *what: Any, **fields: Any) -> UUID:
    request = BackfillRequest(**asked(*what, **fields))
    started = await start_backfill(plane.dispatcher.state, plane.dispatcher.org_id, request)
    assert started.backfill is not None
    await plane.settle()
    return started.backfill.backfill_id


async def advance(plane: ControlPlane) -> int:
    changed = await advance_backfills(plane.dispatcher.state)
    await plane.settle()
    return changed


async def show(plane: ControlPlane, backfill_id: UUID) -> BackfillDetail:
    return await show_backfill(plane.dispatcher.state, plane.dispatcher.org_id, backfill_id)


async def steer(plane: ControlPlane, backfill_id: UUID, verb: Verb) -> BackfillAction:
    return await control_backfill(
        plane.dispatcher.state, plane.dispatcher.org_id, backfill_id, verb
    )


async def test_a_plan_counts_what_there_is_what_is_done_and_what_would_run(
    plane: ControlPlane,
) -> None:
    await filled(plane, 3)
    await plane.trigger(30, 39, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await commit(plane, ingest)
    await plane.settle()
    (decode,) = await take(plane)
    underway = await plan(plane, "decode", 0, 39)
    assert (underway.inputs, underway.up_to_date, underway.under_way, underway.tasks) == (
        4,
        3,
        1,
        0,
    )
    await plane.complete(decode, status="Failed", retryable=False)
    usual = await plan(plane, "decode", 0, 39)
    assert (usual.inputs, usual.up_to_date, usual.due, usual.tasks) == (4, 3, 1, 1)
    assert (usual.amount.rows, usual.amount.bytes) == (5, 4)
    assert usual.amount.seconds is not None
    forced = await plan(plane, "decode", 5, 39, force=True)
    assert (forced.inputs, forced.tasks, forced.amount.rows) == (4, 4, 20)
    assert plane.sql("SELECT count(*) AS n FROM backfills") == [{"n": 0}]


async def test_a_plan_says_what_nothing_upstream_holds_and_who_could_make_it(
    plane: ControlPlane,
) -> None:
    await filled(plane, 1)
    await plane.trigger(30, 39, "flow", "request")
    await run_all(plane)
    found = await plan(plane, "decode", 0, 49)
    assert [(gap.start, gap.end) for gap in found.gaps] == [(10, 29), (40, 49)]
    (maker,) = found.upstream
    assert maker.command == "trace backfill flow.ingest --from 10 --to 49"
    (source,) = (await plan(plane, "ingest", 0, 49)).upstream
    assert source.command == "trace sources trigger flow request --from 10 --to 49"
    assert (await plan(plane, "decode", 0, 9)).gaps == []


async def test_an_invalidation_that_is_open_makes_what_it_touches_due(plane: ControlPlane) -> None:
    await filled(plane, 3)
    request = InvalidateRequest(
        dataset="flow.ingest", scope="row_range", start=12, end=15, reason="wrong"
    )
    await invalidate(plane.dispatcher.state, plane.dispatcher.org_id, request)
    assert (await plan(plane, "decode", 0, 29)).due == 1
    assert (await plan(plane, "ingest", 0, 29)).due == 1


async def test_sources_are_not_backfilled_and_the_error_says_what_to_do(
    plane: ControlPlane,
) -> None:
    await filled(plane, 1)
    with pytest.raises(BadInput) as manual:
        await plan(plane, "request", 0, 9)
    assert manual.value.hint == "trace sources trigger flow request --from 0 --to 9"
    with pytest.raises(BadInput, match="always_on"):
        await plan(plane, "follow", 0, 9)
    with pytest.raises(NotFound, match=r"flow\.decod"):
        await plan(plane, "decod", 0, 9)


async def test_forced_it_goes_through_all_inputs_and_what_follows_is_done_again(
    plane: ControlPlane,
) -> None:
    await filled(plane, 3)
    backfill_id = await start(plane, "decode", 5, 19, force=True)
    claims = await take(plane)
    assert work(claims) == [("decode", 0, 9), ("decode", 10, 19)]
    # As the router makes them.
    assert [c.task.inputs[0].where for c in claims] == [{"chain": 1}] * 2
    assert [len(c.task.inputs[0].files) for c in claims] == [1, 1]
    for claimed in claims:
        await commit(plane, claimed)
    assert await run_all(plane) == [("count", 0, 9), ("count", 10, 19)]
    await advance(plane)
    found = await show(plane, backfill_id)
    assert (found.status, found.done, found.total, found.failed) == ("Completed", 2, 2, 0)


async def test_an_input_that_is_not_routed_yet_is_gone_through_and_keeps_its_own_task(
    plane: ControlPlane,
) -> None:
    await filled(plane, 1)
    await plane.trigger(10, 19, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await commit(plane, ingest)
    planned = await plan(plane, "decode", 0, 19)
    assert (planned.inputs, planned.up_to_date, planned.under_way, planned.due) == (2, 1, 1, 0)
    backfill_id = await start(plane, "decode", 0, 19, force=True)
    assert (await show(plane, backfill_id)).total == 2
    await steer(plane, backfill_id, "cancel")
    assert ("decode", 10, 19) in await run_all(plane)


async def test_an_input_that_is_routed_after_a_failed_backfill_is_done_whatever_was_read_before(
    plane: ControlPlane,
) -> None:
    await filled(plane, 0)
    await plane.trigger(0, 9, "flow", "request")
    plane.sql("UPDATE outbox SET available_at = now() + interval '1 h' WHERE kind = 'route'")
    await start(plane, "ingest", 0, 9, force=True)
    (older,) = await take(plane)
    await start(plane, "ingest", 0, 9, force=True)
    (newer,) = await take(plane)
    await plane.complete(newer, status="Failed", error_code="broken", retryable=False)
    await commit(plane, older)
    plane.sql("UPDATE outbox SET available_at = now() WHERE kind = 'route'")
    await run_all(plane)
    # The older attempt had not read what the newer one was asked for.
    held = plane.sql(
        "SELECT p.task_id FROM partition_versions p JOIN datasets d ON d.uuid = p.dataset_uuid"
        " WHERE d.job_name = 'ingest' AND p.superseded_at IS NULL"
    )
    assert [each["task_id"] != older.task.task_id for each in held] == [True]


async def test_what_is_up_to_date_is_skipped_and_nothing_left_is_no_backfill(
    plane: ControlPlane,
) -> None:
    await filled(plane, 3)
    request = BackfillRequest(**asked("decode", 0, 29))
    started = await start_backfill(plane.dispatcher.state, plane.dispatcher.org_id, request)
    assert started.backfill is None
    assert plane.sql("SELECT count(*) AS n FROM backfills") == [{"n": 0}]


async def test_its_tasks_are_low_and_so_is_what_follows_over_two_hops(plane: ControlPlane) -> None:
    await filled(plane, 2)
    await start(plane, "ingest", 0, 9, force=True)
    for job in ("ingest", "decode", "count"):
        tasks = plane.sql("SELECT priority, inputs FROM tasks WHERE status = 'Queued'")
        assert [task["priority"] for task in tasks] == [LOW], job
        (claimed,) = await take(plane)
        assert work([claimed]) == [(job, 0, 9)]
        await commit(plane, claimed)
        await plane.settle()


async def test_what_one_of_its_tasks_says_is_invalid_is_no_more_urgent(plane: ControlPlane) -> None:
    await filled(plane, 2)
    await start(plane, "decode", 0, 9, force=True)
    (claimed,) = await take(plane)
    target = claimed.task.outputs[0]
    rewritten = {
        "dataset_uuid": target.dataset_uuid,
        "dataset_version": target.dataset_version,
        "scope": "row_range",
        "start": 10,
        "end": 19,
        "reason": "rewritten",
    }
    outputs = [stage(plane.dispatcher.store, claimed, 0, 0, 9)]
    await plane.complete(claimed, outputs=outputs, invalidations=[rewritten])
    await route_invalidations(plane.dispatcher.state)
    await plane.settle()
    (task,) = plane.sql(
        "SELECT priority FROM tasks WHERE status = 'Queued' AND inputs->0->>'start' = '10'"
    )
    assert task["priority"] == LOW


async def test_what_comes_meanwhile_goes_first(plane: ControlPlane) -> None:
    await filled(plane, 5)
    await start(plane, "ingest", 0, 49, force=True)
    await plane.trigger(50, 59, "flow", "request")
    await plane.settle()
    assert work(await take(plane, 1)) == [("ingest", 50, 59)]


async def test_never_more_than_its_limit_is_in_flight(plane: ControlPlane) -> None:
    await filled(plane, 10)
    backfill_id = await start(plane, "decode", 0, 99, force=True, max_in_flight=3)
    seen = 0
    while True:
        live = plane.sql(
            "SELECT id FROM tasks WHERE backfill_id = %s AND status IN ('Queued', 'Running')",
            backfill_id,
        )
        assert len(live) <= 3
        claims = [c for c in await take(plane, 1) if c.task.job.name == "decode"]
        if not claims:
            break
        await commit(plane, claims[0])
        seen += 1
        await asyncio.gather(*(advance_backfills(plane.dispatcher.state) for _ in range(3)))
    found = await show(plane, backfill_id)
    assert (seen, found.done, found.total, found.status) == (10, 10, 10, "Completed")


async def test_paused_it_makes_no_more_tasks_and_resumed_it_goes_on(plane: ControlPlane) -> None:
    await filled(plane, 6)
    backfill_id = await start(plane, "count", 0, 59, force=True, max_in_flight=2)
    paused = [await steer(plane, backfill_id, "pause") for _ in range(2)]
    assert [(each.changed, each.backfill.status) for each in paused] == [
        (True, "Paused"),
        (False, "Paused"),
    ]
    assert len(await run_all(plane)) == 2
    assert await advance(plane) == 0
    assert await take(plane) == []
    assert [(await steer(plane, backfill_id, "resume")).changed for _ in range(2)] == [True, False]
    ran = 0
    while await advance(plane):
        ran += len(await run_all(plane))
    assert ran == 4
    assert (await show(plane, backfill_id)).status == "Completed"
    with pytest.raises(Conflict):
        await steer(plane, backfill_id, "pause")


async def test_canceled_what_waits_ends_at_once_and_what_runs_is_told(plane: ControlPlane) -> None:
    await filled(plane, 5)
    backfill_id = await start(plane, "count", 0, 49, force=True, max_in_flight=3)
    (running,) = await take(plane, 1)
    answers = [await steer(plane, backfill_id, "cancel") for _ in range(2)]
    assert [(each.changed, each.backfill.status) for each in answers] == [
        (True, "Canceled"),
        (False, "Canceled"),
    ]
    assert (await plane.beat(running)).directive == "cancel"
    await plane.complete(running, status="Canceled")
    assert await advance(plane) == 0
    assert await take(plane) == []
    found = await show(plane, backfill_id)
    assert (found.canceled, found.done, found.total) == (3, 0, 3)
    assert found.ended_because == "a user canceled it"
    with pytest.raises(NotFound):
        await steer(plane, uuid4(), "cancel")


async def test_what_failed_is_listed_and_it_ends_as_completed_all_the_same(
    plane: ControlPlane,
) -> None:
    await filled(plane, 2)
    backfill_id = await start(plane, "count", 0, 19, force=True)
    first, second = await take(plane)
    await plane.complete(first, status="Failed", retryable=False, error_code="bad_input")
    await commit(plane, second)
    await advance(plane)
    found = await show(plane, backfill_id)
    assert (found.status, found.done, found.failed, found.total) == ("Completed", 1, 1, 2)
    (failed,) = found.failed_tasks
    assert (failed.task_id, failed.error_code) == (first.task.task_id, "bad_input")
    await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, failed.task_id)
    await plane.settle()
    await commit(plane, await plane.claimed(failed.task_id))
    assert (await show(plane, backfill_id)).failed == 0
    assert (await plan(plane, "count", 0, 19)).up_to_date == 2


async def test_the_same_request_twice_is_one_backfill(plane: ControlPlane) -> None:
    await filled(plane, 2)
    request_id = uuid4()
    request = BackfillRequest(**asked("count", 0, 19, force=True, request_id=request_id))
    dispatcher = plane.dispatcher
    answers = [await start_backfill(dispatcher.state, dispatcher.org_id, request) for _ in range(2)]
    assert [answer.new for answer in answers] == [True, False]
    assert plane.sql("SELECT id FROM backfills") == [{"id": request_id}]
    await plane.settle()
    assert len(await take(plane)) == 2
    other = request.model_copy(update={"end": 9})
    with pytest.raises(Conflict):
        await start_backfill(dispatcher.state, dispatcher.org_id, other)


async def test_a_deploy_that_replaces_what_it_fills_cancels_it(plane: ControlPlane) -> None:
    await filled(plane, 3)
    backfill_id = await start(plane, "count", 0, 29, force=True, max_in_flight=1)
    changed = DAG.replace(
        "inputs: [{ from: { job: decode } }]",
        "config: { emit: true }\n    inputs: [{ from: { job: decode } }]",
    )
    dispatcher = plane.dispatcher
    deployed = await deploy_dag(dispatcher.state, dispatcher.org_id, changed, "dag.yaml")
    assert deployed.builds == ["count"]
    with pytest.raises(DeployInProgress):
        await plan(plane, "count", 0, 29)
    ran = await run_all(plane)
    assert len(ran) == 4, "three are built, and the one that waited ends"
    # While it is rebuilt, no more of the old is made.
    assert await advance(plane) == 0
    assert await advance_deploys(dispatcher.state) == 1
    assert await advance(plane) == 1
    found = await show(plane, backfill_id)
    assert (found.status, found.done) == ("Canceled", 1)
    assert "deploy" in (found.ended_because or "")


async def test_a_job_that_takes_its_inputs_together_has_one_task_for_them(
    plane: ControlPlane,
) -> None:
    yaml = DAG.replace(
        "inputs: [{ from: { job: decode } }]",
        "execution_strategy: Bulk\n    inputs: [{ from: { job: decode } }]",
    )
    await plane.deploy(yaml)
    for n in range(3):
        await plane.trigger(10 * n, 10 * n + 9, "flow", "request")
    for _ in range(3):
        await plane.settle()
        for claimed in await take(plane):
            if claimed.task.job.name == "count":
                await plane.complete(claimed)
            else:
                await commit(plane, claimed)
    assert (await plan(plane, "count", 0, 29, force=True)).tasks == 1
    backfill_id = await start(plane, "count", 0, 29, force=True)
    (claimed,) = await take(plane)
    assert sorted((i.start, i.end) for i in claimed.task.inputs) == [(0, 9), (10, 19), (20, 29)]
    await plane.complete(claimed)
    await advance(plane)
    found = await show(plane, backfill_id)
    assert (found.status, found.done, found.total) == ("Completed", 1, 1)


async def test_what_was_done_meanwhile_gets_no_task(plane: ControlPlane) -> None:
    await filled(plane, 3)
    plane.sql(
        "UPDATE tasks t SET status = 'Failed' FROM jobs j"
        " WHERE j.id = t.job_id AND j.name = 'count'"
    )
    backfill_id = await start(plane, "count", 0, 29, max_in_flight=1)
    (first,) = await take(plane)
    (last,) = plane.sql(
        "SELECT t.id FROM tasks t JOIN jobs j ON j.id = t.job_id"
        " WHERE j.name = 'count' AND t.status = 'Failed' AND t.inputs @> '[{\"start\": 20}]'"
    )
    await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, last["id"])
    await plane.settle()
    await commit(plane, await plane.claimed(last["id"]))
    await commit(plane, first)
    await advance(plane)
    assert await run_all(plane) == [("count", 10, 19)]
    while await advance(plane):
        pass
    found = await show(plane, backfill_id)
    assert (found.status, found.done, found.total) == ("Completed", 2, 2)


async def test_ranges_that_a_job_passes_on_are_passed_on_again(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await plane.trigger(0, 9, "flow", "request")
    await plane.settle()
    (ingest,) = await take(plane)
    await plane.complete(ingest, events=[range_event(ingest, 0, 9)])
    await run_all(plane)
    await start(plane, "ingest", 0, 9, force=True)
    (again,) = await take(plane)
    await plane.complete(again, events=[range_event(again, 0, 9)])
    assert await run_all(plane) == [("count", 0, 9), ("decode", 0, 9)]


async def test_they_are_listed_the_newest_first(plane: ControlPlane) -> None:
    await filled(plane, 2)
    first = await start(plane, "decode", 0, 9, force=True)
    second = await start(plane, "count", 0, 19, force=True)
    dispatcher = plane.dispatcher
    found = (await list_backfills(dispatcher.state, dispatcher.org_id, "flow", 10)).backfills
    assert [each.backfill_id for each in found] == [second, first]
    with pytest.raises(NotFound, match="there is no DAG 'other'"):
        await list_backfills(dispatcher.state, dispatcher.org_id, "other", 10)
