"""DAGs that are removed: what ends, what is kept, and that they find it again."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.support.pipeline import Job, Pipeline, edited, mixed
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.storage.purge_generation import plan_purge, purge_generations
from trace_platform.dispatcher.versions.list_dags import list_dags
from trace_platform.dispatcher.versions.remove_dag import plan_removal, remove_dag
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import Conflict, DatasetInUse, DeployInProgress, NotFound
from trace_platform.wire.plan import RemovalRequest, RemovalResponse

pytestmark = pytest.mark.anyio

CHAIN = {"a": Job(), "b": Job(("a",))}


async def remove(pipe: Pipeline, dag: str = "p", **request: object) -> RemovalResponse:
    dispatcher = pipe.plane.dispatcher
    return await remove_dag(
        dispatcher.state, dispatcher.org_id, dag, RemovalRequest.model_validate(request)
    )


async def filled(pipe: Pipeline) -> None:
    await pipe.deploy(CHAIN)
    await pipe.trigger((0, 9), (10, 19))
    await pipe.settle()


async def states(pipe: Pipeline) -> dict[str, str]:
    dispatcher = pipe.plane.dispatcher
    return {
        each.dag_name: each.state
        for each in (await list_dags(dispatcher.state, dispatcher.org_id)).dags
    }


async def test_a_removed_dag_publishes_nothing_and_finds_its_data_when_it_is_deployed_again(
    pipe: Pipeline,
) -> None:
    await filled(pipe)
    before = await pipe.read()
    plan = await plan_removal(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, "p")
    assert (plan.unpublishes, plan.sources, plan.tasks) == (["p_a", "p_b"], ["source"], 0)
    assert plan.keeps.partitions == 4
    done = await remove(pipe, dag_version=str(plan.dag_version))
    assert (done.unpublished, await pipe.read()) == (["p_a", "p_b"], {})
    assert await states(pipe) == {"p": "Removed"}
    with pytest.raises(NotFound) as caught:
        await pipe.trigger((20, 29))
    assert "p" in str(caught.value)

    again = await pipe.deploy(CHAIN)
    assert (again.status, again.new) == ("CutOver", False)
    assert await pipe.settle() == [], "nothing is built that is there"
    assert await pipe.read() == before
    await pipe.trigger((20, 29))
    assert sorted(await pipe.settle()) == ["p.a", "p.b"]
    assert await states(pipe) == {"p": "Active"}


async def test_what_was_open_is_canceled_and_done_when_the_dag_is_deployed_again(
    pipe: Pipeline,
) -> None:
    await filled(pipe)
    await pipe.trigger((20, 29), (30, 39))
    (running,) = await pipe.claim(1)
    done = await remove(pipe)
    assert done.tasks == 2
    assert await pipe.claim() == [], "what waited is canceled"
    await pipe.run(running)
    (late,) = pipe.plane.sql("SELECT status FROM tasks WHERE id = %s", running.task.task_id)
    assert late["status"] == "Canceled", "what still ran commits nothing"
    assert (await pipe.deploy(CHAIN)).status == "Building", "it waits for what was canceled"
    await pipe.settle()
    seen = await pipe.read()
    assert mixed(seen) == {}
    assert set(seen["p_b"]) == {(0, 9), (10, 19), (20, 29), (30, 39)}


async def test_a_dag_that_others_read_is_not_removed_and_they_are_named(pipe: Pipeline) -> None:
    await filled(pipe)
    await pipe.deploy({"x": Job(("@p_b",))}, "q")
    with pytest.raises(DatasetInUse) as caught:
        await remove(pipe)
    assert "q.x reads p_b" in str(caught.value), "also while it is being built"
    await pipe.settle()
    with pytest.raises(DatasetInUse):
        await remove(pipe)
    await remove(pipe, "q")
    await remove(pipe)
    assert await states(pipe) == {"p": "Removed", "q": "Removed"}


async def test_a_dag_that_is_being_built_or_changed_meanwhile_is_not_removed(
    pipe: Pipeline,
) -> None:
    await filled(pipe)
    with pytest.raises(Conflict):
        await remove(pipe, dag_version=str(uuid4()))
    await pipe.deploy(edited(CHAIN, "b", revision=2))
    assert await states(pipe) == {"p": "Building"}
    with pytest.raises(DeployInProgress):
        await remove(pipe)
    await roll_back(pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id, "p")
    await remove(pipe)
    with pytest.raises(NotFound) as caught:
        await remove(pipe)
    assert "was removed" in str(caught.value)


async def test_the_data_of_a_removed_dag_can_be_purged_and_is_then_built_anew(
    pipe: Pipeline,
) -> None:
    await filled(pipe)
    dispatcher = pipe.plane.dispatcher
    await remove(pipe)
    plan = await plan_purge(dispatcher.state, dispatcher.org_id, "p.b.0", None, 0)
    (generation,) = plan.generations
    assert generation.in_use is None
    version = generation.dataset_version
    await purge_generations(
        dispatcher.state,
        dispatcher.data,
        dispatcher.store,
        "trace-data",
        dispatcher.org_id,
        "p.b.0",
        [version],
    )
    await pipe.deploy(CHAIN)
    assert sorted(await pipe.settle()) == ["p.b", "p.b"]
    assert set((await pipe.read())["p_b"]) == {(0, 9), (10, 19)}


async def test_backfills_end_with_their_dag(pipe: Pipeline) -> None:
    await filled(pipe)
    dispatcher = pipe.plane.dispatcher
    pipe.plane.sql(
        "INSERT INTO backfills (org_id, dag_name, job_name, generation_id, range_start, range_end,"
        " force, status, max_in_flight, event_ids)"
        " SELECT %s, 'p', 'b', v.generation_id, 0, 9, true, 'Running', 1, '{}'"
        "   FROM dag_version_jobs v JOIN jobs j ON j.id = v.job_id WHERE j.name = 'b'",
        dispatcher.org_id,
    )
    assert (await remove(pipe)).backfills == 1
    (row,) = pipe.plane.sql("SELECT status, ended_because FROM backfills")
    assert row == {"status": "Canceled", "ended_because": "its DAG was removed"}


async def test_what_is_invalid_waits_for_its_dag(pipe: Pipeline) -> None:
    await filled(pipe)
    dispatcher = pipe.plane.dispatcher
    pipe.plane.sql(
        "INSERT INTO data_invalidations (org_id, dataset_uuid, dataset_version, scope,"
        " partition_key, range_start, range_end, remade, reason)"
        " SELECT org_id, uuid, current_version, 'row_range', '0-9', 0, 9, false, 'a test'"
        "   FROM datasets WHERE name = 'p_b'"
    )
    await remove(pipe)
    assert await route_invalidations(dispatcher.state) == 0
    await pipe.deploy(CHAIN)
    assert await route_invalidations(dispatcher.state) == 1
    assert await pipe.settle() == ["p.b"]
