"""The first version of a DAG whose inputs hold data already is seen when it is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipeline import Job, Pipeline, edited
from trace_platform.dispatcher.versions.list_dags import list_dags
from trace_platform.dispatcher.versions.remove_dag import remove_dag
from trace_platform.dispatcher.versions.roll_back import plan_rollback, roll_back
from trace_platform.domain.errors import DatasetInUse, NotFound
from trace_platform.wire.plan import RemovalRequest, RollbackRequest

pytestmark = pytest.mark.anyio

CHAIN = {"a": Job(), "b": Job(("a",))}
READER = {"x": Job(("@p_b",)), "y": Job(("x",))}


async def filled(pipe: Pipeline) -> None:
    await pipe.deploy(CHAIN)
    await pipe.trigger((0, 9), (10, 19))
    await pipe.settle()


async def test_a_first_version_over_existing_data_is_published_when_it_is_built(
    pipe: Pipeline,
) -> None:
    await filled(pipe)
    done = await pipe.deploy(READER, "q")
    assert (done.status, done.replaces, done.builds) == ("Building", None, ["source", "x", "y"])
    for claimed in await pipe.claim(1):
        await pipe.run(claimed)
    assert sorted(await pipe.read()) == ["p_a", "p_b"], "what is half there is not published"
    # What comes meanwhile is held, and given to it afterwards.
    await pipe.trigger((20, 29))
    await pipe.settle()
    assert set((await pipe.read())["q_y"]) == {(0, 9), (10, 19), (20, 29)}


async def test_what_a_first_version_reads_is_in_use_while_it_is_built(pipe: Pipeline) -> None:
    await filled(pipe)
    await pipe.deploy(READER, "q")
    with pytest.raises(DatasetInUse):
        await pipe.deploy(CHAIN, published=["a"])


async def test_a_first_version_can_be_given_up(pipe: Pipeline) -> None:
    await filled(pipe)
    state, org_id = pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id
    done = await pipe.deploy(READER, "q")
    with pytest.raises(NotFound) as caught:
        await pipe.trigger((0, 9), dag="q")
    assert "is being built" in str(caught.value)
    plan = await plan_rollback(state, org_id, "q", None)
    assert (plan.instead_of, plan.to_version) == (done.dag_version, None)
    back = await roll_back(state, org_id, "q", RollbackRequest(instead_of=plan.instead_of))
    assert (back.dag_version, back.instead_of, back.deploy_id) == (None, done.dag_version, None)
    assert await pipe.settle() == []
    assert (await pipe.deploy(READER, "q")).status == "Building", "it goes on where it stopped"
    await pipe.settle()
    assert set((await pipe.read())["q_y"]) == {(0, 9), (10, 19)}


async def test_a_first_version_that_fails_is_not_published(pipe: Pipeline, tmp_path: Path) -> None:
    await filled(pipe)
    trap = tmp_path / "trap"
    trap.touch()
    fails = (("config", {"fails": str(trap)}), ("max_attempts", 1))
    await pipe.deploy(edited(READER, "y", fields=fails), "q")
    await pipe.settle()
    (deploy,) = pipe.plane.sql("SELECT status FROM deploys WHERE dag_name = 'q'")
    assert deploy["status"] == "Failed"
    assert sorted(await pipe.read()) == ["p_a", "p_b"]
    with pytest.raises(NotFound) as caught:
        await pipe.trigger((0, 9), dag="q")
    assert "was never built" in str(caught.value)
    assert "trace deploys q" in str(caught.value.hint)

    # Its name is given back, and what others do is as it was.
    state, org_id = pipe.plane.dispatcher.state, pipe.plane.dispatcher.org_id
    await remove_dag(state, org_id, "q", RemovalRequest())
    listed = (await list_dags(state, org_id)).dags
    assert {each.dag_name: each.state for each in listed} == {"p": "Active", "q": "Removed"}
    with pytest.raises(NotFound) as caught:
        await remove_dag(state, org_id, "q", RemovalRequest())
    assert "was removed" in str(caught.value)
    trap.unlink()
    await pipe.deploy(edited(READER, "y", fields=fails), "q")
    await pipe.settle()
    assert set((await pipe.read())["q_y"]) == {(0, 9), (10, 19)}, "deployed again, it goes on"


async def test_a_rollback_says_which_names_would_go(pipe: Pipeline) -> None:
    await pipe.deploy(CHAIN, published=["a"])
    await pipe.trigger((0, 9))
    await pipe.settle()
    await pipe.deploy(CHAIN)
    dispatcher = pipe.plane.dispatcher
    plan = await plan_rollback(dispatcher.state, dispatcher.org_id, "p", None)
    assert (plan.unpublishes, plan.readers) == (["p_b"], [])
    await pipe.deploy({"x": Job(("@p_b",))}, "q")
    plan = await plan_rollback(dispatcher.state, dispatcher.org_id, "p", None)
    assert [(each.dag_name, each.dataset) for each in plan.readers] == [("q", "p_b")]
