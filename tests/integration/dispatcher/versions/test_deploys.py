"""Versions built beside each other, cut over and rolled back."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.pipeline import Job, Pipeline, dag_yaml, edited, mixed
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.plan_dag import plan_dag
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import (
    BadInput,
    Conflict,
    DatasetInUse,
    DeployInProgress,
    GenerationPurged,
    InvalidDag,
    NotFound,
    StalePlan,
)
from trace_platform.wire.plan import RollbackRequest

CHAIN = {"a": Job(), "b": Job(("a",)), "c": Job(("b",)), "d": Job(("a",))}


pytestmark = pytest.mark.anyio


async def filled(pipe: Pipeline, ranges: int = 3) -> None:
    await pipe.deploy(CHAIN)
    await pipe.trigger(*((10 * n, 10 * n + 9) for n in range(ranges)))
    await pipe.settle()


async def test_a_first_deploy_is_active_at_once(pipe: Pipeline) -> None:
    done = await pipe.deploy(CHAIN)
    assert (done.status, done.new, done.builds) == ("CutOver", True, ["source", "a", "b", "c", "d"])
    await pipe.trigger((0, 9))
    assert sorted(await pipe.settle()) == ["p.a", "p.b", "p.c", "p.d"]
    assert {name: set(seen) for name, seen in (await pipe.read()).items()} == {
        f"p_{job}": {(0, 9)} for job in CHAIN
    }


async def test_the_same_file_again_changes_nothing(pipe: Pipeline) -> None:
    await filled(pipe)
    done = await pipe.deploy(CHAIN)
    assert (done.status, done.deploy_id, done.new) == ("Unchanged", None, False)
    assert await pipe.settle() == []


async def test_an_edit_rebuilds_from_there_onward_beside_what_is_read(pipe: Pipeline) -> None:
    await filled(pipe)
    before = await pipe.read()
    done = await pipe.deploy(edited(CHAIN, "b", revision=2))
    assert (done.status, done.builds) == ("Building", ["b", "c"])
    for claims in range(6):
        assert await pipe.read() == before, claims
        (claimed,) = await pipe.claim(1)
        assert claimed.task.job.name in ("b", "c")
        await pipe.run(claimed)
        await advance_deploys(pipe.plane.dispatcher.state)
    assert await pipe.settle() == []
    after = await pipe.read()
    assert mixed(after) == {}
    assert {content["revision"] for content in after["p_b"].values()} == {2}
    assert {content["inputs"][0]["revision"] for content in after["p_c"].values()} == {2}
    assert (after["p_a"], after["p_d"]) == (before["p_a"], before["p_d"])


async def test_unchanged_upstream_goes_on_and_events_are_held_and_then_drained(
    pipe: Pipeline,
) -> None:
    await filled(pipe)
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    await pipe.trigger((100, 109))
    ran = await pipe.work()
    assert sorted(ran) == ["p.a", "p.b", "p.b", "p.b", "p.c", "p.c", "p.c", "p.d"]
    assert (100, 109) in (await pipe.read())["p_d"]
    assert (100, 109) not in (await pipe.read())["p_b"]
    assert sorted(await pipe.settle()) == ["p.b", "p.c"]
    seen = await pipe.read()
    assert mixed(seen) == {}
    assert all(set(seen[f"p_{job}"]) == {(0, 9), (10, 19), (20, 29), (100, 109)} for job in CHAIN)


async def test_settings_that_change_no_data_rebuild_nothing_and_take_the_queue_along(
    pipe: Pipeline,
) -> None:
    await filled(pipe)
    await pipe.trigger((100, 109))
    await pipe.plane.settle()
    done = await pipe.deploy(edited(CHAIN, "a", fields=(("priority", "high"),)))
    assert (done.status, done.builds, done.added) == ("CutOver", [], ["a"])
    (queued,) = pipe.plane.sql(
        "SELECT t.priority, j.priority AS of_job FROM live_tasks t JOIN jobs j ON j.id = t.job_id"
    )
    assert queued["of_job"] == 0
    assert sorted(await pipe.settle()) == ["p.a", "p.b", "p.c", "p.d"]


async def test_a_rollback_restores_the_previous_answers_exactly(pipe: Pipeline) -> None:
    await filled(pipe)
    before, version = await pipe.read(), pipe.active()
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    await pipe.settle()
    assert await pipe.read() != before
    back = await roll_back(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, "p")
    assert back.dag_version == version == pipe.active()
    assert await pipe.read() == before
    assert await pipe.settle() == []
    assert await pipe.read() == before


async def test_what_came_after_the_cut_over_is_caught_up_with_after_a_rollback(
    pipe: Pipeline,
) -> None:
    await filled(pipe)
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    await pipe.settle()
    await pipe.trigger((100, 109))
    await pipe.settle()
    await roll_back(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, "p")
    assert sorted(await pipe.settle()) == ["p.b", "p.c"]
    seen = await pipe.read()
    assert mixed(seen) == {}
    assert set(seen["p_c"]) == {(0, 9), (10, 19), (20, 29), (100, 109)}


async def test_work_of_a_version_that_was_rolled_back_never_becomes_current(
    pipe: Pipeline,
) -> None:
    await filled(pipe)
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    await pipe.settle()
    await pipe.trigger((100, 109))
    while (claimed := (await pipe.claim(1))[0]).task.job.name != "b":
        await pipe.run(claimed)
    await roll_back(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, "p")
    assert (await pipe.plane.beat(claimed)).directive == "cancel"
    commits = pipe.plane.sql("SELECT count(*) AS n FROM partition_versions")
    await pipe.run(claimed)
    assert pipe.plane.sql("SELECT count(*) AS n FROM partition_versions") == commits
    (task,) = pipe.plane.sql("SELECT status FROM tasks WHERE id = %s", claimed.task.task_id)
    assert task["status"] == "Canceled"
    # A reply that was lost is answered as the first one was.
    await pipe.run(claimed)
    await pipe.settle()
    assert mixed(await pipe.read()) == {}


async def test_rolled_forward_again_the_work_is_taken_up_where_it_was(pipe: Pipeline) -> None:
    await filled(pipe)
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    await pipe.settle()
    newest = pipe.active()
    await pipe.trigger((100, 109))
    await pipe.plane.settle()
    (claimed,) = await pipe.claim(1)
    await pipe.run(claimed)
    await pipe.plane.settle()
    org_id = pipe.plane.dispatcher.org_id
    await roll_back(pipe.plane.dispatcher.state, org_id, "p")
    await roll_back(pipe.plane.dispatcher.state, org_id, "p", RollbackRequest(to_version=newest))
    await pipe.settle()
    seen = await pipe.read()
    assert mixed(seen) == {}
    assert (100, 109) in seen["p_c"]
    assert seen["p_c"][100, 109]["inputs"][0]["revision"] == 2


async def test_content_that_was_built_before_is_not_built_again(pipe: Pipeline) -> None:
    await filled(pipe)
    first = pipe.active()
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    await pipe.settle()
    done = await pipe.deploy(CHAIN)
    assert (done.new, done.dag_version, done.status) == (False, first, "CutOver")
    assert await pipe.settle() == []


async def test_a_failed_rebuild_leaves_the_old_version_serving_and_says_where_it_stands(
    pipe: Pipeline, tmp_path: Path
) -> None:
    await filled(pipe)
    before, version = await pipe.read(), pipe.active()
    trap = tmp_path / "trap"
    trap.touch()
    broken = edited(CHAIN, "b", revision=2, fields=(("config", {"fails": str(trap)}),))
    await pipe.deploy(broken)
    await pipe.trigger((100, 109))
    await pipe.settle()
    (deploy,) = pipe.plane.sql("SELECT * FROM deploys WHERE kind = 'deploy' AND status = 'Failed'")
    assert re.fullmatch(r"task \S+ of it failed.*: \[\w+\] .+", deploy["error"]), deploy["error"]
    assert pipe.active() == version
    seen = await pipe.read()
    assert mixed(seen) == {}
    assert all(seen[name][r] == c for name, parts in before.items() for r, c in parts.items())
    # What was held for it went to the version that serves.
    assert (100, 109) in seen["p_c"]
    # Once the cause is gone, the same file goes on where it stopped.
    trap.unlink()
    assert (await pipe.deploy(broken)).status == "Building"
    await pipe.settle()
    seen = await pipe.read()
    assert {content["revision"] for content in seen["p_b"].values()} == {2}
    assert (100, 109) in seen["p_c"]
    assert mixed(seen) == {}


async def test_only_one_version_is_built_at_a_time(pipe: Pipeline) -> None:
    await filled(pipe)
    first = await pipe.deploy(edited(CHAIN, "b", revision=2))
    again = await pipe.deploy(edited(CHAIN, "b", revision=2))
    assert (again.deploy_id, again.status) == (first.deploy_id, "Building")
    with pytest.raises(DeployInProgress) as caught:
        await pipe.deploy(edited(CHAIN, "b", revision=3))
    assert "trace rollback p" in str(caught.value.hint)


async def test_a_rollback_gives_up_what_is_being_built(pipe: Pipeline) -> None:
    await filled(pipe)
    before = await pipe.read()
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    await pipe.plane.settle()
    given_up = await roll_back(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, "p")
    assert given_up.deploy_id is None
    assert await pipe.settle() == []
    assert await pipe.read() == before
    (deploy,) = pipe.plane.sql("SELECT status FROM deploys ORDER BY id DESC LIMIT 1")
    assert deploy["status"] == "Canceled"


async def test_a_rollback_whose_reply_was_lost_does_not_go_back_twice(pipe: Pipeline) -> None:
    state, org_id = pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id
    first, second, third = CHAIN, edited(CHAIN, "b", revision=2), edited(CHAIN, "b", revision=3)
    for jobs in (first, second, third):
        await pipe.deploy(jobs)
        await pipe.trigger((0, 9))
        await pipe.settle()
    request = RollbackRequest(instead_of=pipe.active())
    done = await roll_back(state, org_id, "p", request)
    assert await roll_back(state, org_id, "p", request) == done
    assert done.dag_version == pipe.active()
    await pipe.deploy(third)
    await pipe.trigger((10, 19))
    building = await pipe.deploy(edited(CHAIN, "a", revision=9))
    request = RollbackRequest(instead_of=building.dag_version)
    given_up = await roll_back(state, org_id, "p", request)
    assert (given_up.deploy_id, given_up.dag_version) == (None, pipe.active())
    assert await roll_back(state, org_id, "p", request) == given_up
    with pytest.raises(Conflict):
        await roll_back(state, org_id, "p", RollbackRequest(instead_of=uuid4()))


async def test_a_version_that_cannot_be_gone_back_to_is_refused(pipe: Pipeline) -> None:
    state, org_id = pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id
    with pytest.raises(NotFound):
        await roll_back(state, org_id, "p")
    await filled(pipe)
    with pytest.raises(BadInput):
        await roll_back(state, org_id, "p")
    with pytest.raises(BadInput):
        await roll_back(state, org_id, "p", RollbackRequest(to_version=pipe.active()))
    first = pipe.active()
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    await pipe.settle()
    pipe.plane.sql(
        "UPDATE generations SET purged_at = clock_timestamp() WHERE id IN"
        " (SELECT generation_id FROM dag_version_jobs WHERE dag_version_id = %s) AND id NOT IN"
        " (SELECT generation_id FROM dag_version_jobs WHERE dag_version_id = %s)",
        first,
        pipe.active(),
    )
    with pytest.raises(GenerationPurged):
        await roll_back(state, org_id, "p")
    # Deployed again, what is gone is built anew.
    assert (await pipe.deploy(CHAIN)).builds == ["b", "c"]
    assert len(await pipe.settle()) == 6
    assert pipe.active() == first
    assert mixed(await pipe.read()) == {}


async def test_other_dags_follow_what_was_rebuilt_and_what_was_rolled_back(pipe: Pipeline) -> None:
    await filled(pipe, 2)
    await pipe.deploy({"x": Job(("@p_c",))}, "q")
    await pipe.settle()
    assert set((await pipe.read())["q_x"]) == {(0, 9), (10, 19)}
    before = await pipe.read()
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    assert (await pipe.settle()).count("q.x") == 2
    assert mixed(await pipe.read()) == {}
    await roll_back(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, "p")
    assert (await pipe.settle()).count("q.x") == 2
    assert await pipe.read() == before


async def test_a_name_that_others_read_is_not_taken_away(pipe: Pipeline) -> None:
    await filled(pipe, 1)
    await pipe.deploy({"x": Job(("@p_c",))}, "q")
    with pytest.raises(DatasetInUse) as caught:
        await pipe.deploy(CHAIN, published=["a", "b"])
    assert "q.x" in str(caught.value)


async def test_a_saved_plan_is_applied_unchanged_or_refused(pipe: Pipeline) -> None:
    await filled(pipe)
    dispatcher = pipe.plane.dispatcher
    jobs = edited(CHAIN, "b", revision=2)
    plan = await plan_dag(dispatcher.state, dispatcher.org_id, dag_yaml(jobs), "dag.yaml")
    await pipe.deploy(edited(CHAIN, "d", revision=2))
    await pipe.settle()
    with pytest.raises(StalePlan):
        await pipe.deploy(jobs, plan_hash=plan.plan_hash)
    plan = await plan_dag(dispatcher.state, dispatcher.org_id, dag_yaml(jobs), "dag.yaml")
    assert {job.job: job.action for job in plan.changes} == {
        "b": "changed",
        "c": "affected",
        "d": "changed",
    }
    assert {job.job: job.reuses for job in plan.builds} == {"b": False, "c": False, "d": True}
    assert plan.total.partitions == 6
    done = await pipe.deploy(jobs, plan_hash=plan.plan_hash)
    assert done.builds == ["b", "c", "d"]
    assert sorted(set(await pipe.settle())) == ["p.b", "p.c"]


async def test_a_version_that_served_with_a_failure_is_gone_back_to_with_it(
    pipe: Pipeline, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    jobs = edited(CHAIN, "d", fields=(("config", {"fails": str(trap)}),))
    await pipe.deploy(jobs)
    await pipe.trigger((0, 9))
    trap.touch()
    await pipe.settle()
    first = await pipe.deploy(edited(jobs, "d", revision=2))
    assert first.status == "Building"
    trap.unlink()
    await pipe.settle()
    assert {c["revision"] for c in (await pipe.read())["p_d"].values()} == {2}
    # Its failure is as old as it is, and nothing of it is left to be built.
    assert (await pipe.deploy(jobs)).status == "CutOver"
    assert await pipe.settle() == []
    assert "p_d" not in await pipe.read()


async def test_a_task_of_a_version_that_gave_way_cannot_be_retried(pipe: Pipeline) -> None:
    await filled(pipe, 1)
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    await pipe.plane.settle()
    await roll_back(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, "p")
    (task,) = pipe.plane.sql("SELECT id, status FROM tasks WHERE superseded")
    assert task["status"] == "Canceled"
    with pytest.raises(Conflict, match="it would commit nothing") as caught:
        await retry_task(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, task["id"])
    assert "trace deploy" in (caught.value.hint or "")


async def test_a_name_is_taken_as_soon_as_it_is_being_built(pipe: Pipeline) -> None:
    await pipe.deploy({"a": Job()}, published=[])
    await pipe.trigger((0, 9))
    await pipe.settle()
    assert (await pipe.deploy({"a": Job(revision=2)})).status == "Building"
    with pytest.raises(InvalidDag) as caught:
        await pipe.plane.deploy(
            dag_yaml({"a": Job()}, "p").replace("name: p\n", "name: other\n", 1)
        )
    assert "published by the DAG 'p'" in str(caught.value)
    await pipe.settle()
    assert list(await pipe.read()) == ["p_a"]


async def test_waiting_tasks_get_the_priority_of_the_new_definition(pipe: Pipeline) -> None:
    low = edited(CHAIN, "a", fields=(("priority", "low"),))
    await pipe.deploy(low)
    await pipe.trigger((0, 9), (10, 19))
    await pipe.plane.settle()
    await pipe.deploy(edited(CHAIN, "a", fields=(("priority", "high"),)))
    assert {row["priority"] for row in pipe.plane.sql("SELECT priority FROM tasks")} == {0}


async def test_readers_elsewhere_follow_a_name_to_another_job_at_once(pipe: Pipeline) -> None:
    jobs = {"a": Job(), "b": Job(("a",))}
    await pipe.deploy(jobs, published=["a"])
    await pipe.deploy({"x": Job(("@p_a",))}, "q")
    await pipe.trigger((0, 9))
    await pipe.settle()
    moved = dag_yaml(jobs, "p", ["a"]).replace(
        "p_a:\n    from:\n      job: a", "p_a:\n    from:\n      job: b"
    )
    await pipe.plane.deploy(moved)
    assert await pipe.settle() == ["q.x"]
    (content,) = (await pipe.read())["q_x"].values()
    assert content["inputs"][0]["job"] == "b"


async def test_what_is_owed_once_more_is_given_once(pipe: Pipeline) -> None:
    await filled(pipe)
    pipe.plane.sql(
        "INSERT INTO outbox (kind, payload) SELECT 'route', jsonb_build_object('event_ids',"
        " jsonb_build_array(event_id), 'generation_id', generation_id, 'again', gen_random_uuid())"
        " FROM task_inputs"
    )
    assert await pipe.settle() == []
    assert pipe.plane.sql("SELECT 1 FROM outbox") == []
