"""Of what a deploy builds, a job that only reads another waits until that is built, whatever
happens to other DAGs meanwhile."""

from __future__ import annotations

import pytest

from tests.integration.dispatcher.redo.test_invalidations import commit, route, run_all, say, take
from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.wire.task import Claimed

pytestmark = pytest.mark.anyio

DIMS = """
name: dims
jobs:
  - {{ name: request, activation: source, source: {{ kind: manual }}, outputs: [ranges],
       config: {{ era: {era} }}, bootstrap: {{ reset_outputs: true }} }}
  - name: make
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    config: {{ emit: {emit} }}
    inputs: [{{ from: {{ job: request }} }}]
publish: {{ dims: {{ from: {{ job: make }} }} }}
"""
FLOW = """
name: flow
defaults: {{ max_attempts: 1 }}
jobs:
  - {{ name: request, activation: source, source: {{ kind: manual }}, outputs: [ranges] }}
  - name: base
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    config: {{ emit: {emit} }}
    inputs: [{{ from: {{ job: request }} }}]
  - name: join
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{{ from: {{ dataset: dims }} }}, {{ from: {{ job: base }}, trigger: false }}]
"""
BEFORE, AFTER = FLOW.format(emit="false"), FLOW.format(emit="true")
FIRST, EDITED = DIMS.format(era=1, emit="false"), DIMS.format(era=1, emit="true")
EMPTIED = DIMS.format(era=2, emit="false")


async def built(plane: ControlPlane) -> None:
    """Everything that is under way, to its end."""
    await run_all(plane)
    while plane.sql("SELECT 1 FROM deploys WHERE status = 'Building'"):
        await advance_deploys(plane.dispatcher.state)
        await run_all(plane)


async def filled(plane: ControlPlane) -> None:
    await plane.deploy(FIRST)
    await plane.deploy(BEFORE)
    for dag in ("dims", "flow"):
        await plane.trigger(0, 9, dag, "request")
        await built(plane)


async def begun(plane: ControlPlane) -> Claimed:
    """A rebuild of base and join: the attempt of base, for which join waits."""
    await plane.deploy(AFTER)
    await plane.settle()
    (base,) = await take(plane)
    assert base.task.job.name == "base"
    return base


async def rewritten(plane: ControlPlane) -> None:
    """What base reads, while nobody builds."""
    await say(plane, "flow.request", 0, 9)
    await route(plane)
    await run_all(plane)


async def ready(plane: ControlPlane) -> list[Claimed]:
    """Whatever can be claimed: join, of whichever generation, before what it reads."""
    await plane.settle()
    return sorted(await take(plane), key=lambda each: each.task.job.name, reverse=True)


def reads(plane: ControlPlane, index: int) -> list[tuple[str, int, int]]:
    """What join is made of, of one input: the version, how far that was then, and is now."""
    rows = plane.sql(
        "SELECT r->>'version' AS version, (r->>'position')::int AS read, v.position::int AS now"
        " FROM datasets d JOIN partition_versions p ON p.dataset_version = d.current_version"
        " CROSS JOIN jsonb_array_elements(p.made_of) r"
        " JOIN dataset_versions v ON v.version = (r->>'version')::uuid"
        " WHERE d.job_name = 'join' AND p.superseded_at IS NULL AND (r->>'input')::int = %s",
        index,
    )
    return [(row["version"], row["read"], row["now"]) for row in rows]


def assert_made_of_what_is_current(plane: ControlPlane) -> None:
    """Of the version of dims that is current, and of all that base holds."""
    (now,) = plane.sql("SELECT current_version::text AS v FROM datasets WHERE name = 'dims'")
    assert {version for version, _, _ in reads(plane, 0)} == {now["v"]}
    assert [read for _, read, _ in reads(plane, 1)] == [now for _, _, now in reads(plane, 1)]


async def test_a_cut_over_of_another_dag_gives_nothing_to_who_waits(plane: ControlPlane) -> None:
    await filled(plane)
    base = await begun(plane)
    await plane.deploy(EDITED)
    (make,) = await ready(plane)
    await commit(plane, make)
    await plane.settle()
    assert await advance_deploys(plane.dispatcher.state) == 1
    for claimed in await ready(plane):
        await commit(plane, claimed)
    await commit(plane, base)
    await built(plane)
    assert_made_of_what_is_current(plane)


async def test_what_another_dag_lost_is_read_again_when_the_turn_comes(
    plane: ControlPlane,
) -> None:
    await filled(plane)
    for text in (AFTER, BEFORE):
        await plane.deploy(text)
        await built(plane)
    await rewritten(plane)
    base = await begun(plane)
    await plane.deploy(EMPTIED)
    for claimed in await ready(plane):
        await commit(plane, claimed)
    await commit(plane, base)
    await built(plane)
    assert_made_of_what_is_current(plane)


async def test_what_failed_in_a_build_is_tried_again_at_its_turn(plane: ControlPlane) -> None:
    await filled(plane)
    await commit(plane, await begun(plane))
    await plane.settle()
    await advance_deploys(plane.dispatcher.state)
    (join,) = await ready(plane)
    await plane.complete(join, status="Failed", error_code="x", retryable=False)
    assert await advance_deploys(plane.dispatcher.state) == 1
    await rewritten(plane)
    base = await begun(plane)
    assert await advance_deploys(plane.dispatcher.state) == 0
    await commit(plane, base)
    await built(plane)
    assert plane.sql("SELECT status FROM deploys ORDER BY id DESC LIMIT 1")[0] == {
        "status": "CutOver"
    }
    assert_made_of_what_is_current(plane)


async def test_what_was_owed_in_a_build_that_was_given_up_waits_for_the_turn_in_the_next(
    plane: ControlPlane,
) -> None:
    await filled(plane)
    await plane.trigger(10, 19, "dims", "request")
    await run_all(plane)
    await commit(plane, await begun(plane))
    await plane.settle()
    await advance_deploys(plane.dispatcher.state)
    done, join = await ready(plane)
    await commit(plane, done)
    await say(plane, "flow.request", 0, 9)
    await route(plane)
    await plane.deploy(EDITED)
    for claimed in await ready(plane):
        await commit(plane, claimed)
    await plane.settle()
    assert await advance_deploys(plane.dispatcher.state) == 1  # It owes join the new version.
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "flow")
    await plane.complete(join, status="Canceled")
    await plane.deploy(AFTER)
    for claimed in await ready(plane):
        await commit(plane, claimed)
    await built(plane)
    assert_made_of_what_is_current(plane)
