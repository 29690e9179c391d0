"""Plan and deploy say what a DAG needs and is not there."""

from __future__ import annotations

import pytest

from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.health.explain import explain
from trace_platform.dispatcher.pressure.list_queues import list_queues
from trace_platform.dispatcher.pressure.pause_job import pause_job
from trace_platform.dispatcher.sources.watch_sources import watch_sources
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.dispatcher.versions.plan_dag import plan_dag
from trace_platform.wire.control import PauseRequest

pytestmark = pytest.mark.anyio


def endless(name: str, count: int) -> str:
    return f"name: {name}\njobs:\n" + "".join(
        f"  - {{ name: s{n}, activation: source, source: {{ kind: always_on }},"
        " runtime: ecs_platform, operator: no_op }\n"
        for n in range(count)
    )


def worker(plane: ControlPlane, source_slots: int) -> None:
    plane.sql(
        "INSERT INTO workers (worker_id, runtime, slots, source_slots)"
        " VALUES ('w', 'ecs_platform', 2, %s)",
        source_slots,
    )


async def warnings(plane: ControlPlane, yaml: str) -> list[str]:
    planned = await plan_dag(plane.dispatcher.state, plane.dispatcher.org_id, yaml, "dag.yaml")
    deployed = await deploy_dag(plane.dispatcher.state, plane.dispatcher.org_id, yaml, "dag.yaml")
    assert planned.warnings == deployed.warnings
    return planned.warnings


async def test_a_runtime_without_a_worker_is_told_with_the_jobs_that_wait(
    plane: ControlPlane,
) -> None:
    (said,) = await warnings(plane, endless("d", 2))
    no_worker = "no worker of runtime ecs_platform is alive, so these jobs wait: s0, s1"
    assert said.startswith(f"dag.yaml: warning: {no_worker}")
    worker(plane, 2)
    assert await warnings(plane, endless("d", 2)) == []


async def test_more_sources_than_slots_are_told_those_of_other_dags_included(
    plane: ControlPlane,
) -> None:
    worker(plane, 3)
    assert await warnings(plane, endless("one", 2)) == []
    (said,) = await warnings(plane, endless("two", 2))
    assert "4 always_on sources" in said
    assert "its workers have 3: 1 will wait" in said
    # One that is paused has given its slot back.
    await pause_job(plane.dispatcher.state, plane.dispatcher.org_id, "one", "s0", PauseRequest())
    assert await warnings(plane, endless("two", 2)) == []


async def test_why_and_queues_tell_of_a_source_that_waits_for_a_slot(plane: ControlPlane) -> None:
    worker(plane, 1)
    await plane.deploy(endless("d", 2))
    await watch_sources(plane.dispatcher.state, 1.0)
    await plane.settle()
    first, second = plane.wake_ups()
    await plane.claimed(first, "w")
    why = await explain(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.runtimes,
        plane.dispatcher.org_id,
        str(second),
    )
    assert why.reasons[0].code == "source_slots_full"
    assert "[worker] source_slots" in (why.reasons[0].cure or "")
    (alive,) = (
        await list_queues(
            plane.dispatcher.state, plane.dispatcher.dead_letters, plane.dispatcher.org_id
        )
    ).workers
    assert (alive.slots, alive.running, alive.source_slots, alive.running_sources) == (2, 0, 1, 1)
