"""A range that a committed partition already holds whole has nothing to add, and breaks nothing."""

from __future__ import annotations

import pytest

from tests.support.control_plane import DAG, ControlPlane, range_event, stage
from trace_platform.dispatcher.health.describe import list_tasks
from trace_platform.dispatcher.health.explain import explain
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.domain.errors import PartitionOverlap
from trace_platform.wire.task import Claimed

pytestmark = pytest.mark.anyio

WHOLE, PART = (0, 999), (0, 100)


async def claims(plane: ControlPlane) -> list[Claimed]:
    await plane.settle()
    found = await claim_tasks(
        plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", ["w"] * 10
    )
    return [claimed for _, claimed in found]


async def run(plane: ControlPlane, claimed: Claimed) -> None:
    """What a splitter or an ingest of these ranges does."""
    start, end = span(claimed)
    if claimed.task.job.name == "split":
        await plane.complete(claimed, events=[range_event(claimed, start, end)])
    else:
        await plane.complete(
            claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, start, end)]
        )


def span(claimed: Claimed) -> tuple[int, int]:
    (given,) = claimed.task.inputs
    assert given.start is not None
    assert given.end is not None
    return given.start, given.end


async def work(plane: ControlPlane, first: tuple[int, int] = WHOLE) -> None:
    """Until nothing is left; of two that split, this one and all that follows from it first."""
    for split in sorted(await claims(plane), key=lambda each: span(each) != first):
        await run(plane, split)
        for ingest in await claims(plane):
            await run(plane, ingest)
    await plane.settle()


def committed(plane: ControlPlane) -> list[str]:
    rows = plane.sql(
        "SELECT p.partition_key FROM partition_versions p"
        " JOIN datasets d ON d.current_version = p.dataset_version WHERE p.superseded_at IS NULL"
    )
    return [row["partition_key"] for row in rows]


def said(plane: ControlPlane) -> list[tuple[str, str | None]]:
    rows = plane.sql("SELECT status, note FROM tasks ORDER BY created_at, id")
    return [(row["status"], row["note"]) for row in rows]


async def test_a_range_inside_a_committed_one_completes_and_says_that_it_is_covered(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await plane.trigger(*WHOLE)
    await work(plane)
    events = plane.sql("SELECT count(*) AS n FROM events")
    await plane.trigger(*PART)
    await work(plane)
    assert committed(plane) == ["0-999"]
    assert said(plane)[-1] == ("Completed", "covered by 0-999")
    more = plane.sql("SELECT count(*) AS n FROM events")
    assert more[0]["n"] == events[0]["n"] + 2, "the trigger's and the splitter's, none of a commit"
    newest = (
        await list_tasks(
            plane.dispatcher.state, plane.dispatcher.org_id, "chain", "ingest", None, 1
        )
    ).tasks
    assert newest[0].note == "covered by 0-999"
    dispatcher = plane.dispatcher
    why = await explain(
        dispatcher.state,
        dispatcher.data,
        dispatcher.runtimes,
        dispatcher.org_id,
        str(newest[0].task_id),
    )
    assert why.answer.endswith(": covered by 0-999")


@pytest.mark.parametrize("first", [WHOLE, PART])
async def test_a_deploy_builds_what_holds_a_range_inside_another(
    plane: ControlPlane, first: tuple[int, int]
) -> None:
    await plane.deploy()
    for asked in (WHOLE, PART):
        await plane.trigger(*asked)
        await work(plane)
    await plane.deploy(DAG.replace("chunk_blocks: 10", "chunk_blocks: 20"))
    await work(plane, first)
    assert await advance_deploys(plane.dispatcher.state) == 1
    assert plane.sql("SELECT status FROM deploys ORDER BY started_at DESC LIMIT 1") == [
        {"status": "CutOver"}
    ]
    assert committed(plane) == ["0-999"]


async def test_one_that_was_refused_before_completes_when_it_is_tried_again(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    for asked in (WHOLE, PART):
        await plane.trigger(*asked)
        await work(plane)
    (task,) = plane.sql(
        "UPDATE tasks SET status = 'Failed', error_code = 'partition_overlap', note = NULL"
        " WHERE note IS NOT NULL RETURNING id"
    )
    await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, task["id"])
    (again,) = await claims(plane)
    await run(plane, again)
    assert said(plane)[-1] == ("Completed", "covered by 0-999")


_INPUT = "UPDATE tasks SET inputs = jsonb_build_array({}) WHERE status = 'Queued'"
_SPLIT = "FROM datasets d WHERE d.job_name = 'split'"
CHANGES = {
    "is to be done again": _INPUT.format("(inputs->0) - 'changed_at'"),
    "reads files": "INSERT INTO partition_versions (dataset_uuid, dataset_version, partition_key,"
    " location, files, row_count, byte_count, schema_hash)"
    f" SELECT d.uuid, d.current_version, 'any', '', '[]', 0, 0, '' {_SPLIT}",
    "reads a table": "UPDATE dataset_versions v SET location = 'postgres_table:any'"
    f" {_SPLIT} AND v.version = d.current_version",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_what_may_have_something_to_add_does_the_whole_partition(
    plane: ControlPlane, change: str
) -> None:
    await plane.deploy()
    await plane.trigger(*WHOLE)
    await work(plane)
    (before,) = plane.sql("SELECT id FROM partition_versions")
    await plane.trigger(*PART)
    (split,) = await claims(plane)
    if change.startswith("UPDATE tasks"):
        await run(plane, split)
        await plane.settle()
        plane.sql(change)
    else:
        plane.sql(change)
        await run(plane, split)
    (ingest,) = await claims(plane)
    assert span(ingest) == WHOLE
    await run(plane, ingest)
    assert committed(plane).count("0-999") == 1
    gone = "SELECT id FROM partition_versions WHERE superseded_at IS NOT NULL"
    assert plane.sql(gone) == [before]


async def test_what_no_range_woke_is_refused_when_it_would_cut_a_partition(
    plane: ControlPlane,
) -> None:
    await plane.deploy()
    await plane.trigger(*WHOLE)
    await work(plane)
    await plane.trigger(*PART)
    (split,) = await claims(plane)
    await run(plane, split)
    (ingest,) = await claims(plane)
    plane.sql(_INPUT.format("inputs->0 #- '{start}' #- '{end}'").replace("Queued", "Running"))
    with pytest.raises(PartitionOverlap):
        await plane.complete(ingest, outputs=[stage(plane.dispatcher.store, ingest, 0, *PART)])
    assert committed(plane).count("0-999") == 1
