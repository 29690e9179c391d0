"""Versions that change while something else happens: retries, names, retention, other DAGs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from tests.support.control_plane import fence_fields
from tests.support.pipeline import Job, Pipeline, dag_yaml, edited, mixed
from trace_platform.dispatcher.events import emit_events as emitting
from trace_platform.dispatcher.redo.advance_backfills import advance_backfills
from trace_platform.dispatcher.redo.invalidate import invalidate
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.redo.start_backfill import start_backfill
from trace_platform.dispatcher.storage.prune_history import prune_history
from trace_platform.dispatcher.tasks.complete_task import complete_task
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.dispatcher.versions.plan_dag import plan_dag
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import Conflict, DeployInProgress, InvalidDag
from trace_platform.state import datasets
from trace_platform.state.events import NewEvent
from trace_platform.wire.backfill import BackfillRequest
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.invalidation import InvalidateRequest
from trace_platform.wire.plan import RollbackRequest
from trace_platform.wire.task import Claimed, CompleteRequest

pytestmark = pytest.mark.anyio

ONE = {"a": Job()}
READER = {"x": Job(("@p_a",))}


async def fail(pipe: Pipeline, claimed: Claimed, **fields: Any) -> None:
    said = {"status": "Failed", "error_code": "broken", "error_message": "it broke"} | fields
    await complete_task(
        pipe.plane.dispatcher.completing, CompleteRequest(**fence_fields(claimed), **said)
    )


async def back(pipe: Pipeline, to: Any = None) -> None:
    dispatcher = pipe.plane.dispatcher
    await roll_back(dispatcher.state, dispatcher.org_id, "p", RollbackRequest(to_version=to))


def publishing(of: str) -> str:
    """Two jobs, one of which is what the DAG publishes."""
    data = yaml.safe_load(dag_yaml({"a": Job(), "b": Job()}, "p", []))
    data["publish"] = {"p_a": {"from": {"job": of}}}
    return yaml.safe_dump(data, sort_keys=False)


async def test_generations_from_before_fingerprints_are_kept(pipe: Pipeline) -> None:
    await pipe.deploy(ONE)
    await pipe.trigger((0, 9))
    await pipe.settle()
    before = await pipe.read()
    pipe.plane.sql("UPDATE generations SET fingerprint = 'before generations'")
    changed = edited(ONE, "a", fields=(("priority", "high"),))
    dispatcher = pipe.plane.dispatcher
    plan = await plan_dag(dispatcher.state, dispatcher.org_id, dag_yaml(changed), "dag.yaml")
    assert {job.job: job.action for job in plan.jobs} == {"source": "unchanged", "a": "updated"}
    assert (await pipe.deploy(changed)).builds == []
    assert await pipe.settle() == []
    assert await pipe.read() == before


async def test_what_fingerprints_say_later_changes_no_version_that_is_active(
    pipe: Pipeline,
) -> None:
    await pipe.deploy(ONE)
    await pipe.trigger((0, 9))
    await pipe.settle()
    pipe.plane.sql("UPDATE generations SET fingerprint = 'of another release'")
    assert (await pipe.deploy(ONE)).status == "Unchanged"
    await pipe.deploy({"z": Job()}, "other")
    await pipe.trigger((10, 19))
    await pipe.settle()
    assert sorted((await pipe.read())["p_a"]) == [(0, 9), (10, 19)]


async def test_a_late_retry_reads_what_is_current_of_another_dag(pipe: Pipeline) -> None:
    await pipe.deploy(ONE)
    await pipe.deploy(READER, "r")
    await pipe.trigger((0, 9))
    await pipe.settle()
    await pipe.deploy(edited(ONE, "a", revision=2))
    (build,) = await pipe.claim(1)
    await pipe.run(build)
    await pipe.plane.settle()
    assert await advance_deploys(pipe.plane.dispatcher.state) == 1
    (reading,) = await pipe.claim(1)
    assert reading.task.job.name == "x"
    await fail(pipe, reading)
    # Late, however slow the machine is.
    pipe.plane.sql(
        "UPDATE tasks SET next_retry_at = clock_timestamp() + interval '1 hour'"
        " WHERE next_retry_at IS NOT NULL"
    )
    await back(pipe)
    await pipe.settle()
    pipe.plane.sql(
        "UPDATE tasks SET next_retry_at = clock_timestamp() WHERE next_retry_at IS NOT NULL"
    )
    await requeue_failed(pipe.plane.dispatcher.state)
    assert await pipe.settle() == ["r.x"]
    seen = await pipe.read()
    assert seen["r_x"][0, 9]["inputs"] == [seen["p_a"][0, 9]]


async def test_a_name_that_moves_there_and_back_takes_its_readers_along(pipe: Pipeline) -> None:
    dispatcher = pipe.plane.dispatcher
    await deploy_dag(dispatcher.state, dispatcher.org_id, publishing("a"), "dag.yaml")
    await pipe.deploy(READER, "r")
    await pipe.trigger((0, 9))
    await pipe.settle()
    await deploy_dag(dispatcher.state, dispatcher.org_id, publishing("b"), "dag.yaml")
    await pipe.settle()
    assert (await pipe.read())["r_x"][0, 9]["inputs"][0]["job"] == "b"
    await back(pipe)
    await pipe.settle()
    assert (await pipe.read())["r_x"][0, 9]["inputs"][0]["job"] == "a"


async def test_retention_forgets_nothing_that_a_rollback_needs(pipe: Pipeline) -> None:
    await pipe.deploy(ONE)
    await pipe.trigger((0, 9))
    await pipe.settle()
    await pipe.trigger((10, 19))
    await pipe.plane.settle()
    await pipe.deploy(edited(ONE, "a", revision=2))
    for claimed in await pipe.claim(5):
        if claimed.task.config["revision"] == 2:
            await pipe.run(claimed)
        else:
            await fail(pipe, claimed)
    await pipe.plane.settle()
    assert await advance_deploys(pipe.plane.dispatcher.state) == 1
    await pipe.settle()
    await prune_history(pipe.plane.dispatcher.state, 0)
    await back(pipe)
    await pipe.settle()
    assert sorted((await pipe.read())["p_a"]) == [(0, 9), (10, 19)]


async def test_retention_forgets_no_failure_of_what_was_never_built(pipe: Pipeline) -> None:
    await pipe.deploy(ONE)
    await pipe.trigger((0, 9), (10, 19))
    await pipe.settle()
    changed = edited(ONE, "a", revision=2)
    await pipe.deploy(changed)
    one, other = await pipe.claim(2)
    await pipe.run(one)
    await fail(pipe, other, retryable=False)
    await pipe.plane.settle()
    assert await advance_deploys(pipe.plane.dispatcher.state) == 1
    await prune_history(pipe.plane.dispatcher.state, 0)
    assert (await pipe.deploy(changed)).status == "Building"
    await pipe.settle()
    seen = await pipe.read()
    assert {r: content["revision"] for r, content in seen["p_a"].items()} == {
        (0, 9): 2,
        (10, 19): 2,
    }


async def test_a_failure_of_a_version_that_gave_way_cannot_be_retried(pipe: Pipeline) -> None:
    await pipe.deploy(ONE)
    await pipe.trigger((0, 9))
    (claimed,) = await pipe.claim(1)
    await fail(pipe, claimed, retryable=False)
    await pipe.deploy(edited(ONE, "a", revision=2))
    await pipe.settle()
    with pytest.raises(Conflict):
        await retry_task(
            pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, claimed.task.task_id
        )


async def test_jobs_of_several_dags_cannot_feed_each_other_in_a_circle(pipe: Pipeline) -> None:
    await pipe.deploy(ONE)
    await pipe.deploy(READER, "r")
    with pytest.raises(InvalidDag) as caught:
        await pipe.deploy({"a": Job(("source", "@r_x"))})
    assert "p.a -> r.x -> p.a" in str(caught.value) or "r.x -> p.a -> r.x" in str(caught.value)
    # Reading what depends on another job of the same DAG is no circle.
    await pipe.deploy({"a": Job(), "b": Job(("@r_x",))})


async def test_a_plan_whose_reply_was_lost_may_be_applied_again(pipe: Pipeline) -> None:
    dispatcher = pipe.plane.dispatcher
    await pipe.deploy(ONE)
    changed = edited(ONE, "a", fields=(("priority", "high"),))
    plan = await plan_dag(dispatcher.state, dispatcher.org_id, dag_yaml(changed), "dag.yaml")
    assert (await pipe.deploy(changed, plan_hash=plan.plan_hash)).status == "CutOver"
    assert (await pipe.deploy(changed, plan_hash=plan.plan_hash)).status == "Unchanged"


async def test_what_is_invalid_while_its_job_is_rebuilt_is_made_anew_after_that(
    pipe: Pipeline,
) -> None:
    dispatcher = pipe.plane.dispatcher
    await pipe.deploy(ONE)
    await pipe.trigger((0, 9), (10, 19))
    await pipe.settle()
    await pipe.deploy(edited(ONE, "a", revision=2))
    (built,) = await pipe.claim(1)
    await pipe.run(built)
    said = InvalidateRequest(dataset="p_a", scope="row_range", start=0, end=19, reason="wrong")
    await invalidate(dispatcher.state, dispatcher.org_id, said)
    await route_invalidations(dispatcher.state)
    await pipe.settle()
    await route_invalidations(dispatcher.state)
    assert await pipe.settle() == ["p.a", "p.a"]
    (row,) = pipe.plane.sql("SELECT processed_at, note FROM data_invalidations")
    assert row["processed_at"] is not None
    assert row["note"] is None


async def test_what_is_done_by_hand_to_a_job_below_the_edited_one_is_not_lost_with_its_generation(
    pipe: Pipeline,
) -> None:
    dispatcher = pipe.plane.dispatcher
    two = {"a": Job(), "b": Job(("a",))}
    await pipe.deploy(two)
    await pipe.trigger((0, 9))
    await pipe.settle()
    await pipe.deploy(edited(two, "a", revision=2))
    asked = BackfillRequest(dag_name="p", job_name="b", start=0, end=9, force=True)
    with pytest.raises(DeployInProgress):
        await start_backfill(dispatcher.state, dispatcher.org_id, asked)
    said = InvalidateRequest(dataset="p_b", scope="row_range", start=0, end=9, reason="wrong")
    await invalidate(dispatcher.state, dispatcher.org_id, said)
    assert await route_invalidations(dispatcher.state) == 0, "what it would be made of gives way"
    assert await pipe.settle() == ["p.a", "p.b"], "the build, and nothing else"
    assert await route_invalidations(dispatcher.state) == 1
    assert await pipe.settle() == ["p.b"]


async def test_an_event_that_is_emitted_during_a_cut_over_is_routed(
    pipe: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher = pipe.plane.dispatcher
    two = {"a": Job(), "b": Job(("a",))}
    await pipe.deploy(two)
    await pipe.trigger((0, 9))
    await pipe.settle()
    await pipe.deploy(edited(two, "a", revision=2))
    await pipe.work()
    record, cut_over = emitting.events.record, []

    async def late(tx: Any, new: list[NewEvent]) -> int:
        cut_over.append(asyncio.create_task(advance_deploys(dispatcher.state)))
        await pipe.plane.blocked(cut_over[0])
        assert not cut_over[0].done(), "it waits until the event is on record"
        return await record(tx, new)

    monkeypatch.setattr(emitting.events, "record", late)
    event: Any = {"partition_key": "100-109", "start": 100, "end": 109}
    await emitting.emit_events(
        dispatcher.state, dispatcher.org_id, EmitRequest(dataset="p_b", events=[event])
    )
    monkeypatch.undo()
    assert await cut_over[0] in (0, 1)


async def test_a_backfill_that_gave_way_does_not_come_back(pipe: Pipeline) -> None:
    dispatcher = pipe.plane.dispatcher
    await pipe.deploy(ONE)
    await pipe.trigger((0, 9), (10, 19))
    await pipe.settle()
    await pipe.deploy(edited(ONE, "a", revision=2))
    await pipe.settle()
    newest = pipe.active()
    asked = BackfillRequest(dag_name="p", job_name="a", start=0, end=19, force=True)
    await start_backfill(dispatcher.state, dispatcher.org_id, asked)
    await back(pipe)
    await advance_backfills(dispatcher.state)
    await back(pipe, newest)
    assert await pipe.settle() == []
    assert mixed(await pipe.read()) == {}


async def test_a_rename_and_a_completion_do_not_wait_for_each_other(
    pipe: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = {"a": Job(), "b": Job()}
    await pipe.deploy(two, published=["a"])
    await pipe.trigger((0, 9))
    claimed = next(c for c in await pipe.claim(2) if c.task.job.name == "a")
    publish, there, gate = datasets.publish_as, asyncio.Event(), asyncio.Event()

    async def slow(*given: Any) -> None:
        await publish(*given)
        there.set()
        await gate.wait()

    monkeypatch.setattr(datasets, "publish_as", slow)
    changed = edited(two, "a", fields=(("priority", "high"),))
    deploy = asyncio.create_task(pipe.deploy(changed, published=["b"]))
    await there.wait()
    completion = asyncio.create_task(pipe.run(claimed))
    await pipe.plane.blocked(completion)
    gate.set()
    assert (await deploy).status == "CutOver"
    await completion


async def test_readers_elsewhere_follow_a_rebuild_in_smaller_pieces(pipe: Pipeline) -> None:
    data = yaml.safe_load(dag_yaml(ONE))
    data["jobs"][0]["bootstrap"] = {"reset_outputs": True}
    dispatcher = pipe.plane.dispatcher
    await deploy_dag(dispatcher.state, dispatcher.org_id, yaml.safe_dump(data), "dag.yaml")
    await pipe.deploy(READER, "r")
    await pipe.trigger((0, 19), (20, 39))
    await pipe.settle()
    data["jobs"][0]["config"] = {"era": 2}
    await deploy_dag(dispatcher.state, dispatcher.org_id, yaml.safe_dump(data), "dag.yaml")
    await pipe.trigger((0, 9), (10, 29), (30, 39))
    await pipe.settle()
    held = sorted((await pipe.read())["r_x"])
    assert [block for first, last in held for block in range(first, last + 1)] == list(range(40))
    assert pipe.plane.sql("SELECT 1 FROM tasks WHERE status = 'Failed'") == []
