"""A job that only announces ranges passes on that its input is another version of a dataset: who
reads on, and only reads that dataset, is woken as one would be that is woken by it directly."""

from __future__ import annotations

import pytest

from tests.integration.dispatcher.freshness.test_freshness import MADE_OF
from tests.integration.dispatcher.redo.test_invalidations import commit, take
from tests.integration.dispatcher.versions.test_build_turns import DIMS
from tests.support.control_plane import ControlPlane, fence_fields, range_event
from trace_platform.dispatcher.events.record_events import record_events
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.wire.task import EventsRequest

pytestmark = pytest.mark.anyio

FIRST, EDITED = DIMS.format(era=1, emit="false"), DIMS.format(era=1, emit="true")
EMPTIED = DIMS.format(era=2, emit="false")
FLOW = """
name: flow
jobs:
  - name: split
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { dataset: dims } }]
    outputs: [chunks]
  - name: halve
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: split } }]
    outputs: [chunks]
  - name: decode
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: halve } }, { from: { dataset: dims }, trigger: false }]
    outputs: [rows]
  - name: direct
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { dataset: dims } }]
    outputs: [rows]
"""


async def work(plane: ControlPlane) -> list[str]:
    """Until nothing is left, deploys included; what decode worked through."""
    ran: list[str] = []
    while True:
        await plane.settle()
        for claimed in (claims := await take(plane)):
            given = claimed.task.inputs[0]
            if claimed.task.job.name in ("split", "halve"):
                event = range_event(claimed, given.start or 0, given.end or 0)
                await plane.complete(claimed, events=[event])
            else:
                await commit(plane, claimed)
            if claimed.task.job.name == "decode":
                ran.append(f"{given.start}-{given.end}")
        if not claims and not plane.sql("SELECT 1 FROM deploys WHERE status = 'Building'"):
            return ran
        await advance_deploys(plane.dispatcher.state)


async def filled(plane: ControlPlane, *ranges: tuple[int, int]) -> None:
    await plane.deploy(FIRST)
    await plane.deploy(FLOW)
    await arrived(plane, *ranges)


async def arrived(plane: ControlPlane, *ranges: tuple[int, int]) -> list[str]:
    for start, end in ranges:
        await plane.trigger(start, end, "dims", "request")
    return await work(plane)


def assert_read(plane: ControlPlane, start: int, end: int) -> None:
    """All of this is there, of the version that is current, whoever woke the job that made it."""
    (now,) = plane.sql("SELECT current_version::text AS v FROM datasets WHERE name = 'dims'")
    for job, index in (("direct", 0), ("decode", 1)):
        rows = plane.sql(MADE_OF, job)
        reads = [read for row in rows for read in row["made_of"] if read["input"] == index]
        assert {read["version"] for read in reads} == {now["v"]}, job
        blocks = sorted(n for read in reads for n in range(read["start"], read["end"] + 1))
        assert blocks == list(range(start, end + 1)), job


async def test_a_range_that_comes_after_the_cut_over_is_passed_on(plane: ControlPlane) -> None:
    await filled(plane, (20, 39))
    await plane.deploy(EMPTIED)
    await arrived(plane, (20, 39))
    assert_read(plane, 20, 39)


async def test_a_range_with_other_borders_is_passed_on(plane: ControlPlane) -> None:
    await filled(plane, (20, 29), (30, 39))
    await plane.deploy(EMPTIED)
    await arrived(plane, (20, 39))
    assert_read(plane, 20, 39)


async def test_a_range_that_came_before_a_rollback_is_passed_on_after_it(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9))
    await plane.deploy(EDITED)
    await work(plane)
    await arrived(plane, (10, 19))
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "dims")
    await work(plane)
    assert_read(plane, 0, 19)


async def test_a_range_that_the_new_version_does_not_hold_is_passed_on(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 19), (20, 39))
    await plane.deploy(EMPTIED)
    await arrived(plane, (20, 39))
    assert_read(plane, 0, 39)


async def test_what_is_new_after_a_cut_over_is_announced_once_and_is_no_change(
    plane: ControlPlane,
) -> None:
    await filled(plane, (0, 9))
    await plane.deploy(EDITED)
    assert await work(plane) == ["0-9"]
    await plane.trigger(10, 19, "dims", "request")
    await plane.settle()
    (make,) = await take(plane)
    await commit(plane, make)
    await plane.settle()
    split = next(each for each in await take(plane) if each.task.job.name == "split")
    emitted = EventsRequest(**fence_fields(split), events=[range_event(split, 10, 19)])
    assert await record_events(plane.dispatcher.state, emitted, plane.dispatcher.grants.trusts) == 1
    await plane.complete(split, status="Failed", error_code="x", interrupted=True)
    await requeue_failed(plane.dispatcher.state)
    assert await work(plane) == ["10-19"]
    rows = plane.sql(
        "SELECT e.identity, e.replaces FROM events e JOIN datasets d ON d.uuid = e.dataset_uuid"
        " WHERE d.job_name = 'split' AND e.range_start = 10"
    )
    assert rows == [{"identity": "partition:10-19", "replaces": False}]
