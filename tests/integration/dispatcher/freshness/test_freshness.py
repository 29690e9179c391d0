"""Rows that are current were made of what is current, whatever ran beside it, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from tests.integration.dispatcher.redo.test_invalidations import (
    commit,
    route,
    run_all,
    say,
    states,
    take,
)
from tests.integration.dispatcher.sources import test_sources as sources
from tests.integration.dispatcher.tasks.test_fence import another_ingest
from tests.integration.dispatcher.versions import test_deploy_edges as edges
from tests.support.control_plane import ControlPlane, range_event, stage
from tests.support.pipeline import Pipeline, dag_yaml, edited
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.pressure.relieve_pressure import relieve_pressure
from trace_platform.dispatcher.redo.advance_backfills import advance_backfills
from trace_platform.dispatcher.redo.invalidate import invalidate
from trace_platform.dispatcher.redo.plan_backfill import plan_backfill
from trace_platform.dispatcher.redo.process_invalidations import close_invalidations
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.redo.start_backfill import start_backfill
from trace_platform.dispatcher.storage.prune_history import prune_history
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import CommitOvertaken, PartitionOverlap
from trace_platform.state import partitions
from trace_platform.wire.backfill import BackfillRange, BackfillRequest
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.invalidation import InvalidateRequest
from trace_platform.wire.query import DatasetRef, ResolveRequest
from trace_platform.wire.task import Claimed, EventScope

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
"""
DECODE = """
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    execution_strategy: {strategy}
    inputs: [{{ from: {{ job: ingest }} }}]
    outputs: [rows]
"""
SPLIT = """
  - name: split
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: ingest } }]
    outputs: [chunks]
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: split } }, { from: { job: ingest }, trigger: false }]
    outputs: [rows]
"""
JOIN = """
name: flow
jobs:
  - { name: a, activation: source, source: { kind: manual } }
  - { name: b, activation: source, source: { kind: manual } }
  - name: join
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    execution_strategy: Bulk
    inputs: [{ from: { job: a } }, { from: { job: b } }]
"""
MADE_OF = """
SELECT p.partition_key, p.made_of
  FROM partition_versions p JOIN datasets d ON d.uuid = p.dataset_uuid
 WHERE d.job_name = %s AND p.superseded_at IS NULL
"""
CURRENT = """
SELECT partition_key, task_id FROM partition_versions
 WHERE superseded_at IS NULL ORDER BY range_start
"""


def current(plane: ControlPlane) -> dict[str, Any]:
    """By partition: the task that made it."""
    return {row["partition_key"]: row["task_id"] for row in plane.sql(CURRENT)}


def spans(claims: list[Claimed]) -> list[tuple[int | None, int | None]]:
    return sorted((given.start, given.end) for c in claims for given in c.task.inputs)


async def trigger(plane: ControlPlane, *ranges: tuple[int, int]) -> None:
    for each in ranges:
        await plane.trigger(*each, "flow", "request")
    await plane.settle()


async def long_attempt_beside_a_reorg(
    plane: ControlPlane, first: int, last: int
) -> tuple[Claimed, Claimed]:
    """One that has read blocks 100-149 as they were, and commits them after they were rewritten."""
    await plane.deploy(DAG)
    await trigger(plane, (100, 149))
    (large,) = await take(plane)
    await say(plane, "flow.request", first, last)
    await route(plane)
    (small,) = await take(plane)
    await commit(plane, large)
    return large, small


@pytest.mark.parametrize("last", [149, 160])
async def test_a_reorg_that_was_read_before_a_larger_range_is_committed_is_done_again(
    plane: ControlPlane, last: int
) -> None:
    """Within the range, and over its border."""
    large, small = await long_attempt_beside_a_reorg(plane, 140, last)
    assert current(plane) == {"100-149": large.task.task_id}
    with pytest.raises(CommitOvertaken) as caught:
        await commit(plane, small)
    await plane.complete(
        small, status="Failed", error_code=caught.value.code, retryable=caught.value.retryable
    )
    assert {state for state, _, _ in await states(plane)} == {"open"}
    # The job has but one attempt: to be overtaken is none of its failures.
    await requeue_failed(plane.dispatcher.state)
    (again,) = await take(plane)
    assert spans([again]) == [(100, last)]
    await commit(plane, again)
    assert current(plane) == {f"100-{last}": small.task.task_id}
    assert {state for state, _, _ in await states(plane)} == {"processed"}


@pytest.mark.parametrize("last", [149, 160])
async def test_a_reorg_that_is_claimed_after_a_larger_range_was_committed_does_all_of_it(
    plane: ControlPlane, last: int
) -> None:
    await plane.deploy(DAG)
    await trigger(plane, (100, 149))
    (large,) = await take(plane)
    await say(plane, "flow.request", 140, last)
    await route(plane)
    await commit(plane, large)
    (small,) = await take(plane)
    assert spans([small]) == [(100, last)]
    await commit(plane, small)
    assert current(plane) == {f"100-{last}": small.task.task_id}


async def test_a_change_that_a_larger_range_has_read_is_covered_by_it(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await trigger(plane, (100, 149))
    await say(plane, "flow.request", 140, 149)
    await route(plane)
    claims = await take(plane)
    large, small = sorted(claims, key=lambda each: each.task.inputs[0].start or 0)
    await commit(plane, large)
    await commit(plane, small)
    assert current(plane) == {"100-149": large.task.task_id}
    (note,) = plane.sql("SELECT note FROM tasks WHERE id = %s", small.task.task_id)
    assert note["note"] == "covered by 100-149"
    assert {state for state, _, _ in await states(plane)} == {"processed"}


async def test_of_a_range_only_what_nobody_has_read_is_done(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await trigger(plane, (0, 9))
    await run_all(plane)
    await trigger(plane, (5, 14), (20, 29))
    await run_all(plane)
    await trigger(plane, (0, 29))
    claims = await take(plane)
    assert spans(claims) == [(15, 19)]
    await commit(plane, claims[0])
    assert list(current(plane)) == ["0-9", "10-14", "15-19", "20-29"]


async def test_a_reader_whose_attempt_runs_while_its_input_is_rebuilt_reads_it_anew(
    pipe: Pipeline,
) -> None:
    """Another DAG cuts over to smaller pieces while a reader's attempt runs."""
    data = resettable()
    await deployed(pipe, data)
    await pipe.deploy(edges.READER, "r")
    await pipe.trigger((0, 19))
    late: list[Claimed] = []

    async def work_but_not_the_reader() -> None:
        while claims := await pipe.claim():
            for claimed in claims:
                if claimed.task.job.name == "x":
                    late.append(claimed)
                else:
                    await pipe.run(claimed)

    await work_but_not_the_reader()
    data["jobs"][0]["config"] = {"era": 2}
    data["jobs"][1]["config"]["revision"] = 2
    await deployed(pipe, data)
    await pipe.trigger((0, 9), (10, 19))
    await work_but_not_the_reader()
    while await advance_deploys(pipe.plane.dispatcher.state):
        await work_but_not_the_reader()
    for claimed in late:
        await pipe.run(claimed)
    await pipe.settle()
    seen = await pipe.read()
    read = {key: [i["revision"] for i in value["inputs"]] for key, value in seen["r_x"].items()}
    assert {revision for each in read.values() for revision in each} == {2}
    assert sorted(block for s, e in read for block in range(s, e + 1)) == list(range(20))


def resettable() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(dag_yaml(edges.ONE))
    data["jobs"][0]["bootstrap"] = {"reset_outputs": True}
    return data


async def deployed(pipe: Pipeline, data: dict[str, Any]) -> None:
    dispatcher = pipe.plane.dispatcher
    await deploy_dag(dispatcher.state, dispatcher.org_id, yaml.safe_dump(data), "dag.yaml")


async def test_rows_of_a_version_that_gave_way_go_where_the_new_one_has_none(
    pipe: Pipeline,
) -> None:
    data = resettable()
    await deployed(pipe, data)
    await pipe.deploy(edges.READER, "r")
    await pipe.trigger((0, 19), (20, 39))
    await pipe.settle()
    data["jobs"][0]["config"] = {"era": 2}
    await deployed(pipe, data)
    await pipe.trigger((20, 29))
    await pipe.settle()
    held = (await pipe.read())["r_x"]
    assert {tuple(i["range"]) for value in held.values() for i in value["inputs"]} == {(20, 29)}


async def test_a_reader_that_comes_back_reads_what_its_input_holds_by_then(pipe: Pipeline) -> None:
    data = resettable()
    await deployed(pipe, data)
    await pipe.deploy(edges.READER, "r")
    await pipe.trigger((0, 19), (20, 39))
    await pipe.settle()
    await pipe.deploy(edited(edges.READER, "x", revision=2), "r")
    await pipe.settle()
    data["jobs"][0]["config"] = {"era": 2}
    await deployed(pipe, data)
    await pipe.trigger((20, 39))
    await pipe.settle()
    await roll_back(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, "r")
    await pipe.settle()
    held = (await pipe.read())["r_x"]
    assert {tuple(i["range"]) for value in held.values() for i in value["inputs"]} == {(20, 39)}


async def test_a_cut_over_waits_for_a_commit_that_reads_what_it_replaces(
    pipe: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would not see the rows, and nothing would wake the reader for them again."""
    data = resettable()
    await deployed(pipe, data)
    await pipe.deploy(edges.READER, "r")
    await pipe.trigger((0, 19))
    late: list[Claimed] = []
    while claims := await pipe.claim():
        for claimed in claims:
            if claimed.task.job.name == "x":
                late.append(claimed)
            else:
                await pipe.run(claimed)
    data["jobs"][0]["config"] = {"era": 2}
    reached, go_on = asyncio.Event(), asyncio.Event()
    replace = partitions.replace

    async def slowly(*given: Any) -> Any:
        reached.set()
        await go_on.wait()
        return await replace(*given)

    monkeypatch.setattr(partitions, "replace", slowly)
    committing = asyncio.create_task(pipe.run(late[0]))
    await reached.wait()
    deploying = asyncio.create_task(deployed(pipe, data))
    await pipe.plane.blocked(deploying)
    assert not deploying.done()
    go_on.set()
    await committing
    await deploying
    await pipe.settle()
    held = (await pipe.read()).get("r_x", {})
    assert [i for value in held.values() for i in value["inputs"]] == []


# --- what a repair merged


async def merged(plane: ControlPlane) -> None:
    """A reorg across two partitions made them one."""
    await plane.deploy(DAG)
    await trigger(plane, (0, 9), (10, 19))
    await run_all(plane)
    await say(plane, "flow.request", 5, 14)
    await route(plane)
    await run_all(plane)
    assert list(current(plane)) == ["0-19"]


async def test_what_was_merged_can_be_made_anew(plane: ControlPlane) -> None:
    await merged(plane)
    before = current(plane)
    answer = await say(plane, "flow.ingest", 0, 9)
    assert answer.jobs == ["flow.ingest"]
    await route(plane)
    assert await run_all(plane) == [("ingest", 0, 19)]
    assert list(current(plane)) == ["0-19"]
    assert current(plane) != before
    assert {state for state, _, _ in await states(plane)} == {"processed"}


async def test_a_forced_backfill_of_what_was_merged_makes_it_anew(plane: ControlPlane) -> None:
    await merged(plane)
    before = current(plane)
    request = BackfillRequest(dag_name="flow", job_name="ingest", start=0, end=19, force=True)
    await start_backfill(plane.dispatcher.state, plane.dispatcher.org_id, request)
    assert await run_all(plane) != []
    assert await advance_backfills(plane.dispatcher.state)
    assert list(current(plane)) == ["0-19"]
    assert current(plane) != before


# --- what is forgotten


@pytest.mark.parametrize("forget", [False, True])
async def test_a_reader_follows_smaller_pieces_however_long_ago_it_read(
    pipe: Pipeline, forget: bool
) -> None:
    data = resettable()
    await deployed(pipe, data)
    await pipe.deploy(edges.READER, "r")
    await pipe.trigger((0, 19), (20, 39))
    await pipe.settle()
    if forget:
        await prune_history(pipe.plane.dispatcher.state, 0)
    data["jobs"][0]["config"] = {"era": 2}
    data["jobs"][1]["config"]["revision"] = 2
    await deployed(pipe, data)
    await pipe.trigger((0, 9), (10, 29), (30, 39))
    await pipe.settle()
    held = (await pipe.read())["r_x"]
    assert sorted(b for s, e in held for b in range(s, e + 1)) == list(range(40))
    assert {i["revision"] for value in held.values() for i in value["inputs"]} == {2}


async def test_partitions_from_before_positions_go_with_the_version_they_are_of(
    pipe: Pipeline,
) -> None:
    data = resettable()
    await deployed(pipe, data)
    await pipe.deploy(edges.READER, "r")
    await pipe.trigger((0, 19), (20, 39))
    await pipe.settle()
    pipe.plane.sql("UPDATE partition_versions SET made_of = '[]'")
    data["jobs"][0]["config"] = {"era": 2}
    await deployed(pipe, data)
    await pipe.trigger((20, 39))
    await pipe.settle()
    held = (await pipe.read())["r_x"]
    assert {tuple(i["range"]) for value in held.values() for i in value["inputs"]} == {(20, 39)}


@pytest.mark.parametrize("forget", [False, True])
async def test_a_rollback_reads_again_what_was_invalid_meanwhile(
    pipe: Pipeline, forget: bool
) -> None:
    dispatcher = pipe.plane.dispatcher
    await pipe.deploy(edges.ONE)
    await pipe.trigger((0, 9), (10, 19))
    await pipe.settle()
    await pipe.deploy(edited(edges.ONE, "a", revision=2))
    await pipe.settle()
    reorg = InvalidateRequest(dataset="p.source", scope="row_range", start=0, end=9, reason="reorg")
    await invalidate(dispatcher.state, dispatcher.org_id, reorg)
    await route_invalidations(dispatcher.state)
    assert await pipe.settle() == ["p.a"]
    if forget:
        await prune_history(dispatcher.state, 0)
    await edges.back(pipe)
    assert await pipe.settle() == ["p.a"]


@pytest.mark.parametrize("forget", [False, True])
async def test_a_range_whose_task_failed_is_due_however_long_ago(
    plane: ControlPlane, forget: bool
) -> None:
    await plane.deploy(DAG)
    await trigger(plane, (0, 9), (10, 19))
    done, failed = sorted(await take(plane), key=lambda each: each.task.inputs[0].start or 0)
    await commit(plane, done)
    await plane.complete(failed, status="Failed", error_code="broken", retryable=False)
    if forget:
        await prune_history(plane.dispatcher.state, 0)
    asked = BackfillRange(dag_name="flow", job_name="ingest", start=0, end=19)
    plan = await plan_backfill(plane.dispatcher.state, plane.dispatcher.org_id, asked)
    assert (plan.up_to_date, plan.due) == (1, 1)


async def test_what_is_not_known_to_be_done_is_due(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await trigger(plane, (0, 9))
    await run_all(plane)
    plane.sql("DELETE FROM tasks")
    asked = BackfillRange(dag_name="flow", job_name="ingest", start=0, end=9)
    assert (await plan_backfill(plane.dispatcher.state, plane.dispatcher.org_id, asked)).due == 1


async def test_a_run_that_a_user_canceled_stays_so(plane: ControlPlane) -> None:
    await plane.deploy(sources.always_on())
    await sources.settled(plane)
    (run,) = await take(plane, sources=True)
    await sources.cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, run.task.task_id)
    await plane.complete(run, status="Canceled")
    await prune_history(plane.dispatcher.state, 0)
    await sources.settled(plane)
    (kept,) = plane.sql(sources.RUN)
    assert (kept["id"], kept["status"]) == (run.task.task_id, "Canceled")


async def test_the_newest_cursor_is_kept(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    (version,) = plane.sql("SELECT uuid, current_version FROM datasets WHERE job_name = 'request'")
    for cursor in (1, 2, 3):
        plane.sql(
            "INSERT INTO events (org_id, dataset_uuid, dataset_version, identity, cursor,"
            " routed_at, position) SELECT id, %s, %s, 'cursor:' || %s, %s, now(), 1 FROM orgs",
            version["uuid"],
            version["current_version"],
            cursor,
            cursor,
        )
    await prune_history(plane.dispatcher.state, 0)
    assert plane.sql("SELECT cursor FROM events") == [{"cursor": 3}]


async def test_what_was_invalid_while_nobody_read_it_is_read_after_a_rollback(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG)
    await trigger(plane, (0, 9))
    await run_all(plane)
    await plane.deploy(DAG.partition("  - name: ingest")[0])
    await say(plane, "flow.request", 0, 9)
    await route(plane)
    assert await states(plane) == [("processed", 0, 0)]
    await prune_history(plane.dispatcher.state, 0)
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "flow")
    assert await run_all(plane) == [("ingest", 0, 9)]


async def test_what_is_done_again_is_not_taken_for_done_before_it_is(plane: ControlPlane) -> None:
    await plane.deploy(DAG)
    await trigger(plane, (0, 9))
    await run_all(plane)
    await prune_history(plane.dispatcher.state, 0)
    request = BackfillRequest(dag_name="flow", job_name="ingest", start=0, end=9, force=True)
    await start_backfill(plane.dispatcher.state, plane.dispatcher.org_id, request)
    await plane.settle()
    (again,) = await take(plane)
    await plane.complete(again, status="Failed", error_code="broken", retryable=False)
    asked = BackfillRange(dag_name="flow", job_name="ingest", start=0, end=9)
    assert (await plan_backfill(plane.dispatcher.state, plane.dispatcher.org_id, asked)).due == 1


# --- events in another order than they happened


@pytest.mark.parametrize("strategy", ["PerUpdate", "PerPartition", "Bulk"])
async def test_a_change_that_is_routed_before_an_older_one_is_read(
    plane: ControlPlane, strategy: str
) -> None:
    await plane.deploy(DAG + DECODE.format(strategy=strategy))
    await trigger(plane, (0, 9))
    (ingest,) = await take(plane)
    await commit(plane, ingest)
    await plane.settle()
    (decode,) = await take(plane)
    await rewritten(plane)
    plane.sql("UPDATE outbox SET available_at = now() + interval '1 h' WHERE kind = 'route'")
    # It starts when the first rewrite is committed and not routed.
    await plane.complete(decode, status="Failed", error_code="x", interrupted=True)
    await requeue_failed(plane.dispatcher.state)
    (decode,) = await take(plane)
    await rewritten(plane)
    await plane.settle()
    plane.sql("UPDATE outbox SET available_at = now() WHERE kind = 'route'")
    await plane.settle()
    await commit(plane, decode)
    await run_all(plane)
    (held,) = plane.sql(MADE_OF, "decode")
    (newest,) = plane.sql(
        "SELECT max(e.position) AS position FROM events e"
        " JOIN datasets d ON d.uuid = e.dataset_uuid WHERE d.job_name = 'ingest'"
    )
    assert held["made_of"][0]["position"] >= newest["position"]


async def rewritten(plane: ControlPlane) -> None:
    """The chain, and what ingest made of it."""
    await say(plane, "flow.request", 0, 9)
    await route_invalidations(plane.dispatcher.state)
    plane.sql(
        "UPDATE outbox SET available_at = now() WHERE kind = 'route' AND payload->'event_ids' @>"
        " (SELECT jsonb_agg(id) FROM events"
        " WHERE invalidation_id IS NOT NULL AND routed_at IS NULL)"
    )
    await plane.settle()
    (ingest,) = await take(plane)
    await commit(plane, ingest)


async def test_ranges_that_follow_from_what_was_made_anew_are_passed_on_again(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG + SPLIT)

    async def work() -> list[tuple[str, int | None, int | None]]:
        ran = []
        while True:
            await plane.settle()
            claims = await take(plane)
            if not claims:
                return ran
            for claimed in claims:
                given = claimed.task.inputs[0]
                ran.append((claimed.task.job.name, given.start, given.end))
                if claimed.task.job.name == "split":
                    halves = [range_event(claimed, 0, 4), range_event(claimed, 5, 9)]
                    await plane.complete(claimed, events=halves)
                else:
                    await commit(plane, claimed)

    await trigger(plane, (0, 9))
    assert ("decode", 0, 4) in await work()
    await say(plane, "flow.ingest", 0, 9)
    await route(plane)
    assert ("decode", 0, 4) in await work()


# --- several inputs


async def test_ranges_of_one_input_do_not_stand_for_those_of_another(plane: ControlPlane) -> None:
    await plane.deploy(JOIN)
    await plane.trigger(0, 9, "flow", "a")
    await plane.settle()
    (first,) = await take(plane)
    await say(plane, "flow.a", 0, 4)
    await route_invalidations(plane.dispatcher.state)
    await plane.trigger(0, 9, "flow", "b")
    await plane.settle()
    (second,) = await take(plane)
    await commit_hull(plane, first)
    with pytest.raises(CommitOvertaken) as caught:
        await commit_hull(plane, second)
    await plane.complete(second, status="Failed", error_code=caught.value.code)
    await requeue_failed(plane.dispatcher.state)
    (second,) = await take(plane)
    await commit_hull(plane, second)
    (held,) = plane.sql(MADE_OF, "join")
    assert {(r["input"], r["start"], r["end"]) for r in held["made_of"]} == {(0, 0, 9), (1, 0, 9)}


async def test_a_change_of_one_input_reads_the_others_again(plane: ControlPlane) -> None:
    await plane.deploy(JOIN)
    for source in "ab":
        await plane.trigger(0, 9, "flow", source)
    await plane.settle()
    (both,) = await take(plane)
    await commit_hull(plane, both)
    await say(plane, "flow.a", 3, 4)
    await route(plane)
    (again,) = await take(plane)
    await commit_hull(plane, again)
    (held,) = plane.sql(MADE_OF, "join")
    assert {(r["input"], r["start"], r["end"]) for r in held["made_of"]} == {(0, 0, 9), (1, 0, 9)}


async def test_an_input_that_comes_later_is_read_with_those_before(plane: ControlPlane) -> None:
    await plane.deploy(JOIN)
    for source in "ab":
        await plane.trigger(0, 9, "flow", source)
        await plane.settle()
        (one,) = await take(plane)
        await commit_hull(plane, one)
    (held,) = plane.sql(MADE_OF, "join")
    assert {(r["input"], r["start"], r["end"]) for r in held["made_of"]} == {(0, 0, 9), (1, 0, 9)}


async def test_a_cursor_beside_a_range_that_is_held_is_done_alone(plane: ControlPlane) -> None:
    await plane.deploy(JOIN)
    await plane.trigger(0, 99, "flow", "a")
    await plane.settle()
    (first,) = await take(plane)
    await commit_hull(plane, first)
    await plane.trigger(40, 49, "flow", "a")
    emitted = EmitRequest(dataset="flow.b", events=[EventScope(cursor=7)])
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, emitted)
    await plane.settle()
    (both,) = await take(plane)
    assert [(i.cursor, i.start) for i in both.task.inputs] == [(7, None)]


async def test_a_range_beside_a_cursor_is_fitted_too(plane: ControlPlane) -> None:
    await plane.deploy(JOIN)
    await plane.trigger(0, 9, "flow", "a")
    await plane.settle()
    (first,) = await take(plane)
    await commit_hull(plane, first)
    await say(plane, "flow.a", 5, 14)
    await route_invalidations(plane.dispatcher.state)
    emitted = EmitRequest(dataset="flow.b", events=[EventScope(cursor=7)])
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, emitted)
    await plane.settle()
    (both,) = await take(plane)
    assert sorted((i.cursor or 0, i.start) for i in both.task.inputs) == [(0, 0), (7, None)]
    await commit_hull(plane, both)
    (held,) = plane.sql(MADE_OF, "join")
    assert held["partition_key"] == "0-14"


async def commit_hull(plane: ControlPlane, claimed: Claimed) -> None:
    ranges = [(i.start, i.end) for i in claimed.task.inputs if i.start is not None]
    first, last = min(start for start, _ in ranges), max(end or 0 for _, end in ranges)
    await plane.complete(claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, first, last)])


# --- several ranges at once


async def test_ranges_that_others_lie_between_become_tasks_of_their_own(
    plane: ControlPlane,
) -> None:
    await plane.deploy(DAG + "    execution_strategy: Bulk\n")
    await trigger(plane, (20, 29))
    await run_all(plane)
    before = current(plane)
    await trigger(plane, (0, 9), (50, 59))
    assert await run_all(plane) == [("ingest", 0, 9), ("ingest", 50, 59)]
    held = current(plane)
    assert list(held) == ["0-9", "20-29", "50-59"]
    assert held["20-29"] == before["20-29"]


async def test_what_was_never_read_between_two_ranges_is_not_held(plane: ControlPlane) -> None:
    """A partition of two ranges and nothing between them: what comes there is done, with both."""
    await plane.deploy(DAG + "    execution_strategy: Bulk\n")
    await trigger(plane, (0, 9), (50, 59))
    (both,) = await take(plane)
    assert spans([both]) == [(0, 9), (50, 59)]
    await plane.complete(both, outputs=[stage(plane.dispatcher.store, both, 0, 0, 59)])
    await trigger(plane, (20, 29))
    (between,) = await take(plane)
    assert spans([between]) == [(0, 9), (20, 29), (50, 59)]
    await plane.complete(between, outputs=[stage(plane.dispatcher.store, between, 0, 0, 59)])
    assert current(plane) == {"0-59": between.task.task_id}


# --- under pressure


async def test_what_is_invalid_is_never_dropped_from_a_queue(plane: ControlPlane) -> None:
    await plane.deploy(DAG + "    backpressure: { max_queue_depth: 1, mode: drop_oldest }\n")
    ranges = ((0, 9), (20, 29), (40, 49))
    for each in ranges:
        await trigger(plane, each)
        await run_all(plane)
    before = current(plane)
    for each in ranges:
        await say(plane, "flow.request", *each)
    await route(plane)
    await trigger(plane, (60, 69), (70, 79))
    await relieve_pressure(plane.dispatcher.state)
    await run_all(plane)
    await close_invalidations(plane.dispatcher.state)
    held = current(plane)
    assert all(held[key] != made for key, made in before.items())
    assert {state for state, _, _ in await states(plane)} == {"processed"}
    dropped = plane.sql("SELECT 1 FROM tasks WHERE error_code = 'dropped_by_backpressure'")
    assert dropped, "what is new may be dropped"


# --- tasks without inputs


async def test_a_source_that_writes_files_loses_none(plane: ControlPlane) -> None:
    await plane.deploy(sources.always_on())
    await sources.settled(plane)
    (run,) = await take(plane, sources=True)
    await plane.complete(run, outputs=[stage(plane.dispatcher.store, run, 0, 0, 19)])
    plane.sql("UPDATE tasks SET drain_requested_at = now() WHERE dedupe_key = 'run'")
    await sources.settled(plane)
    (again,) = await take(plane, sources=True)
    with pytest.raises(PartitionOverlap):
        await plane.complete(again, outputs=[stage(plane.dispatcher.store, again, 0, 10, 29)])
    assert list(current(plane)) == ["0-19"]
    await plane.complete(again, outputs=[stage(plane.dispatcher.store, again, 0, 20, 29)])
    assert list(current(plane)) == ["0-19", "20-29"]


# --- one moment


async def test_what_one_attempt_commits_is_there_at_one_moment(plane: ControlPlane) -> None:
    names = ["blocks", "transactions", "logs"]
    one = await plane.claimed(await plane.queued_ingest())
    await plane.complete(
        one, outputs=[stage(plane.dispatcher.store, one, i, 0, 9) for i in range(3)]
    )
    two = await plane.claimed(await another_ingest(plane, 0, 9))
    await plane.complete(
        two, outputs=[stage(plane.dispatcher.store, two, i, 0, 9) for i in range(3)]
    )
    moments = plane.sql(
        "SELECT DISTINCT committed_at FROM partition_versions ORDER BY committed_at"
    )
    assert len(moments) == 2
    for row in moments:
        at = row["committed_at"].isoformat()
        request = ResolveRequest(datasets=[DatasetRef(name=name, at=at) for name in names])
        found = await resolve_datasets(plane.dispatcher.state, plane.dispatcher.org_id, request)
        makers = {str(two.task.task_id) in uri for each in found.datasets for uri in each.files}
        assert len(makers) == 1
