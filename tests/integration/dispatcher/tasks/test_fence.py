"""Rules 3, 4 and 5: only the attempt that owns a task can end it, and its commit is whole."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.support.control_plane import ControlPlane, fence_fields, range_event, stage
from trace_platform.dispatcher.events.record_events import record_events
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.dispatcher.tasks.complete_task import complete_tasks
from trace_platform.dispatcher.tasks.reap_leases import reap_leases
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.domain.errors import (
    CommitOvertaken,
    Conflict,
    Forbidden,
    InvalidManifest,
    NotFound,
    StaleFence,
    Unavailable,
)
from trace_platform.domain.fence import Fence
from trace_platform.state import partitions, tasks
from trace_platform.state.tasks import Ending
from trace_platform.wire.manifest import MANIFEST_NAME, SUCCESS_NAME
from trace_platform.wire.task import Claimed, CompleteRequest, EventsRequest, NotClaimed

pytestmark = pytest.mark.anyio

TABLES = ("tasks", "task_attempts", "partition_versions", "events", "outbox")


def everything(plane: ControlPlane) -> dict[str, Any]:
    return {table: plane.sql(f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES}


def expire(plane: ControlPlane) -> None:
    plane.sql(
        "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'"
        " WHERE status = 'Running'"
    )


async def reaped(plane: ControlPlane) -> Claimed:
    """An attempt that the reaper has given up."""
    claimed = await plane.claimed(await plane.queued_ingest())
    expire(plane)
    assert len(await reap_leases(plane.dispatcher.state)) == 1
    return claimed


async def announced(plane: ControlPlane) -> list[UUID]:
    return [task.id for task in await requeue_failed(plane.dispatcher.state)]


async def replaced(plane: ControlPlane) -> tuple[Claimed, Claimed]:
    """A reaped attempt and the newer one that took its place."""
    old = await reaped(plane)
    await requeue_failed(plane.dispatcher.state)
    await plane.settle()
    (task_id,) = plane.wake_ups()
    new = await plane.claimed(task_id, "worker-2")
    assert new.attempt == old.attempt + 1
    return old, new


BROKEN = {
    "another task": lambda f: replace(f, task_id=uuid4()),
    "another attempt": lambda f: replace(f, attempt=f.attempt + 1),
    "another token": lambda f: replace(f, lease_token=uuid4()),
}


async def statement(plane: ControlPlane, name: str, fence: Fence) -> object:
    """One statement of the fence by itself, without the checks that verbs make before it."""
    async with plane.dispatcher.state.transaction() as tx:
        if name == "finish":
            return await tasks.finish(tx, [Ending(fence, "Completed")])
        if name == "fail":
            return await tasks.fail(tx, [Ending(fence, "Failed")], 1.0, 3600.0)
        if name == "extend":
            return await tasks.extend_leases(tx, [(fence, {"done": 1, "total": 2})], 60)
        return await tasks.hold_fences(tx, [fence])


@pytest.mark.parametrize("name", ["finish", "fail", "extend", "hold"])
@pytest.mark.parametrize("broken", BROKEN)
async def test_each_statement_guards_itself(plane: ControlPlane, name: str, broken: str) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    # A second attempt of another task, so that a missing predicate has something to hit.
    other = await plane.claimed(await plane.queued_ingest(20, 29))
    before = everything(plane)
    assert not await statement(plane, name, BROKEN[broken](claimed.fence))
    mixed = replace(claimed.fence, lease_token=other.lease_token)
    assert not await statement(plane, name, mixed)
    assert everything(plane) == before
    assert await statement(plane, name, claimed.fence)


@pytest.mark.parametrize("name", ["finish", "fail", "extend", "hold"])
async def test_each_statement_refuses_an_attempt_that_ended(plane: ControlPlane, name: str) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    await plane.complete(claimed, status="Failed", error_code="x", retryable=False)
    before = everything(plane)
    assert not await statement(plane, name, claimed.fence)
    assert everything(plane) == before


@pytest.mark.parametrize("name", ["finish", "fail", "extend", "hold"])
async def test_each_statement_accepts_a_reaped_attempt(plane: ControlPlane, name: str) -> None:
    claimed = await reaped(plane)
    assert await statement(plane, name, claimed.fence)


def broken_fences(claimed: Claimed) -> list[dict[str, Any]]:
    good = fence_fields(claimed)
    return [
        good | {"lease_token": uuid4()},
        good | {"attempt": claimed.attempt + 1},
        good | {"task_id": uuid4()},
    ]


async def test_a_broken_fence_changes_nothing(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    output = stage(plane.dispatcher.store, claimed, 0, 0, 9)
    before = everything(plane)
    for fence in broken_fences(claimed):
        with pytest.raises(StaleFence):
            await plane.complete(claimed, **fence, outputs=[output])
        for status in ("Failed", "Canceled"):
            with pytest.raises(StaleFence):
                await plane.complete(claimed, **fence, status=status)
        with pytest.raises(StaleFence):
            await plane.beat(claimed, **fence)
        request = EventsRequest(**fence, events=[range_event(claimed, 0, 9)])
        with pytest.raises(StaleFence):
            await record_events(plane.dispatcher.state, request, plane.dispatcher.grants.trusts)
    assert everything(plane) == before


async def test_late_completion_after_reap_is_accepted_while_nobody_took_over(
    plane: ControlPlane,
) -> None:
    claimed = await reaped(plane)
    await plane.complete(claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, 0, 9)])
    (task,) = plane.sql("SELECT status, reaped_at FROM tasks WHERE id = %s", claimed.task.task_id)
    assert task == {"status": "Completed", "reaped_at": None}
    assert await requeue_failed(plane.dispatcher.state) == []


async def test_late_completion_in_the_queue_is_accepted_and_the_wake_up_finds_it_done(
    plane: ControlPlane,
) -> None:
    claimed = await reaped(plane)
    await requeue_failed(plane.dispatcher.state)
    await plane.complete(claimed)
    await plane.settle()
    (task_id,) = plane.wake_ups()
    assert await plane.claim(task_id) == NotClaimed(reason="Completed")


async def test_late_completion_after_a_newer_attempt_commits_nothing(plane: ControlPlane) -> None:
    old, new = await replaced(plane)
    output = stage(plane.dispatcher.store, old, 0, 0, 9)
    before = everything(plane)
    for fields in ({"outputs": [output]}, {"status": "Failed"}, {"status": "Canceled"}):
        with pytest.raises(StaleFence):
            await plane.complete(old, **fields)
    with pytest.raises(StaleFence):
        await plane.beat(old)
    assert everything(plane) == before
    await plane.complete(new, outputs=[stage(plane.dispatcher.store, new, 0, 0, 9)])


async def test_a_heartbeat_takes_a_reaped_lease_up_again(plane: ControlPlane) -> None:
    claimed = await reaped(plane)
    answer = await plane.beat(claimed)
    assert answer.directive == "continue"
    assert await requeue_failed(plane.dispatcher.state) == []
    await plane.complete(claimed)
    (attempt,) = plane.sql(
        "SELECT outcome FROM task_attempts WHERE task_id = %s", claimed.task.task_id
    )
    assert attempt == {"outcome": "Completed"}


async def test_a_repeated_report_is_answered_like_the_first(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    output = stage(plane.dispatcher.store, claimed, 0, 0, 9)
    await plane.complete(claimed, outputs=[output])
    before = everything(plane)
    await plane.complete(claimed, outputs=[output])
    assert everything(plane) == before
    for other in ({"status": "Failed"}, *broken_fences(claimed)):
        with pytest.raises(StaleFence):
            await plane.complete(claimed, **other)
    assert everything(plane) == before


@pytest.mark.parametrize("end", ["Completed", "Failed", "Canceled"])
async def test_an_attempt_that_ended_can_do_nothing_more(plane: ControlPlane, end: str) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    await plane.complete(claimed, status=end)
    before = everything(plane)
    for other in {"Completed", "Failed", "Canceled"} - {end}:
        with pytest.raises(StaleFence):
            await plane.complete(claimed, status=other)
    with pytest.raises(StaleFence):
        await plane.beat(claimed)
    request = EventsRequest(**fence_fields(claimed), events=[range_event(claimed, 0, 9)])
    with pytest.raises(StaleFence):
        await record_events(plane.dispatcher.state, request, plane.dispatcher.grants.trusts)
    assert everything(plane) == before


async def test_racing_completions_of_one_attempt_commit_once(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    output = stage(plane.dispatcher.store, claimed, 0, 0, 9)
    await asyncio.gather(*(plane.complete(claimed, outputs=[output]) for _ in range(5)))
    assert plane.sql("SELECT count(*) AS n FROM partition_versions") == [{"n": 1}]


async def test_a_failure_is_retried_with_back_off_until_attempts_run_out(
    plane: ControlPlane,
) -> None:
    task_id = await plane.queued_ingest()
    for attempt in (1, 2, 3):
        claimed = await plane.claimed(task_id)
        assert claimed.attempt == attempt
        await plane.complete(claimed, status="Failed", error_code="x", error_message="broke")
        assert await requeue_failed(plane.dispatcher.state) == [], "a retry waits for its time"
        plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE next_retry_at > now()")
        assert len(await requeue_failed(plane.dispatcher.state)) == (1 if attempt < 3 else 0)
        await plane.settle()
        plane.wake_ups()
    assert await plane.claim(task_id) == NotClaimed(reason="Failed")
    attempts = plane.sql(
        "SELECT outcome, error_message FROM task_attempts WHERE task_id = %s", task_id
    )
    assert attempts == [{"outcome": "Failed", "error_message": "broke"}] * 3


async def test_a_failure_that_cannot_be_helped_is_final(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    await plane.complete(await plane.claimed(task_id), status="Failed", retryable=False)
    assert plane.sql("SELECT next_retry_at FROM tasks WHERE id = %s", task_id) == [
        {"next_retry_at": None}
    ]


async def test_any_number_of_clean_stops_costs_no_attempt(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    for attempt in range(1, 8):
        claimed = await plane.claimed(task_id)
        assert claimed.attempt == attempt
        await plane.complete(claimed, status="Failed", interrupted=True)
        assert [task.id for task in await requeue_failed(plane.dispatcher.state)] == [task_id], (
            "and it is due at once"
        )
    await plane.complete(await plane.claimed(task_id))


async def test_a_task_that_failed_for_good_can_be_retried(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    await plane.complete(await plane.claimed(task_id), status="Failed", retryable=False)
    await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, task_id)
    await plane.settle()
    assert plane.wake_ups() == [task_id]
    with pytest.raises(Conflict):
        await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, task_id)
    with pytest.raises(NotFound):
        await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, uuid4())
    claimed = await plane.claimed(task_id)
    await plane.complete(claimed, status="Failed")
    (task,) = plane.sql("SELECT next_retry_at FROM tasks WHERE id = %s", task_id)
    assert task["next_retry_at"] is not None, "its attempts are before it again"


async def test_the_reaper_leaves_live_leases_alone(plane: ControlPlane) -> None:
    await plane.claimed(await plane.queued_ingest())
    assert await reap_leases(plane.dispatcher.state) == []


async def test_a_lost_wake_up_is_sent_again(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    assert await requeue_failed(plane.dispatcher.state) == []
    for _ in range(2):
        plane.sql("UPDATE tasks SET announce_again_at = clock_timestamp() WHERE status = 'Queued'")
        assert await announced(plane) == [task_id]
        assert await requeue_failed(plane.dispatcher.state) == [], "once, and then ever more rarely"
        await plane.settle()
        assert plane.wake_ups() == [task_id]
    (task,) = plane.sql(
        "SELECT announce_again_at - clock_timestamp() AS gap FROM tasks WHERE id = %s", task_id
    )
    assert task["gap"].total_seconds() > 100


async def test_cancel_ends_a_queued_task_at_once(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    assert await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, task_id) == "Canceled"
    assert await plane.claim(task_id) == NotClaimed(reason="Canceled")
    with pytest.raises(Conflict):
        await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, task_id)


async def test_cancel_reaches_a_running_task_with_its_heartbeat(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    assert (
        await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, claimed.task.task_id)
        == "Running"
    )
    answer = await plane.beat(claimed)
    assert answer.directive == "cancel"
    await plane.complete(claimed, status="Canceled")
    assert await plane.claim(claimed.task.task_id) == NotClaimed(reason="Canceled")


async def test_a_task_that_fails_after_a_cancel_is_canceled_and_not_retried(
    plane: ControlPlane,
) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, claimed.task.task_id)
    for _ in range(2):
        await plane.complete(claimed, status="Failed", error_code="worker_stopped")
    assert await plane.claim(claimed.task.task_id) == NotClaimed(reason="Canceled")
    plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE next_retry_at IS NOT NULL")
    assert await requeue_failed(plane.dispatcher.state) == []


async def test_a_hanging_attempt_is_not_kept_alive_past_its_time_out(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    plane.sql("UPDATE tasks SET started_at = started_at - interval '1 day'")
    with pytest.raises(StaleFence):
        await plane.beat(claimed)


async def test_a_canceled_task_whose_worker_died_is_not_retried(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, claimed.task.task_id)
    expire(plane)
    await reap_leases(plane.dispatcher.state)
    assert await plane.claim(claimed.task.task_id) == NotClaimed(reason="Canceled")


async def test_an_output_elsewhere_is_refused(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    good = stage(plane.dispatcher.store, claimed, 0, 0, 9)
    before = everything(plane)
    for change in (
        {"location": good.location.replace("/1/", "/2/")},
        {"dataset_uuid": uuid4()},
        {"dataset_version": uuid4()},
        {"output_index": 1},
        {"output_index": 7},
    ):
        with pytest.raises(Forbidden):
            await plane.complete(claimed, outputs=[good.model_copy(update=change)])
    assert everything(plane) == before


@pytest.mark.parametrize("missing", [SUCCESS_NAME, MANIFEST_NAME, "blocks_0_9.parquet"])
async def test_an_unfinished_output_is_refused(plane: ControlPlane, missing: str) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    output = stage(plane.dispatcher.store, claimed, 0, 0, 9)
    plane.dispatcher.store.put(output.location + missing, b"")
    with pytest.raises(InvalidManifest):
        await plane.complete(claimed, outputs=[output])
    assert plane.sql("SELECT status FROM tasks WHERE id = %s", claimed.task.task_id) == [
        {"status": "Running"}
    ]


async def test_a_manifest_that_disagrees_with_the_completion_is_refused(
    plane: ControlPlane,
) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    output = stage(plane.dispatcher.store, claimed, 0, 0, 9)
    with pytest.raises(InvalidManifest):
        await plane.complete(claimed, outputs=[output.model_copy(update={"row_count": 6})])


async def test_a_commit_beyond_the_tasks_range_is_forbidden(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest(10, 19))
    for start, end in ((0, 19), (10, 20), (500, 509)):
        output = stage(plane.dispatcher.store, claimed, 0, start, end)
        with pytest.raises(Forbidden):
            await plane.complete(claimed, outputs=[output])
    assert plane.sql("SELECT * FROM partition_versions") == []


async def test_events_of_other_datasets_are_forbidden(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    foreign = range_event(claimed, 0, 9) | {"dataset_uuid": uuid4()}
    before = everything(plane)
    with pytest.raises(Forbidden):
        await plane.complete(claimed, events=[foreign])
    request = EventsRequest(**fence_fields(claimed), events=[foreign])
    with pytest.raises(Forbidden):
        await record_events(plane.dispatcher.state, request, plane.dispatcher.grants.trusts)
    assert everything(plane) == before


async def test_a_partition_replaces_what_lies_within_it(plane: ControlPlane) -> None:
    small = await commit(plane, 0, 9)
    large = await commit(plane, 0, 29)
    current = plane.sql(
        "SELECT task_id, partition_key FROM partition_versions WHERE superseded_at IS NULL"
    )
    assert current == [{"task_id": large, "partition_key": "0-29"}]
    assert small != large


async def test_a_range_that_cuts_a_partition_is_given_all_of_it(plane: ControlPlane) -> None:
    await commit(plane, 0, 9)
    claimed = await plane.claimed(await plane.queued_ingest(5, 14))
    (given,) = claimed.task.inputs
    assert (given.partition_key, given.start, given.end) == ("0-14", 0, 14)
    before = plane.sql("SELECT * FROM partition_versions")
    for part in ((5, 14), (0, 15)):
        with pytest.raises((CommitOvertaken, Forbidden)):
            await plane.complete(
                claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, *part)]
            )
        assert plane.sql("SELECT * FROM partition_versions") == before
    await plane.complete(claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, 0, 14)])
    current = "SELECT partition_key FROM partition_versions WHERE superseded_at IS NULL"
    assert plane.sql(current) == [{"partition_key": "0-14"}]


async def test_a_range_that_a_larger_one_overtook_ends_without_a_commit(
    plane: ControlPlane,
) -> None:
    """Two triggers overlap and the larger one is quicker: nothing is wrong."""
    small = await plane.claimed(await plane.queued_ingest(0, 9))
    large = await commit(plane, 0, 29)
    await plane.complete(small, outputs=[stage(plane.dispatcher.store, small, 0, 0, 9)])
    assert plane.sql("SELECT task_id FROM partition_versions") == [{"task_id": large}]
    assert plane.sql("SELECT 1 FROM events WHERE producer_task_id = %s", small.task.task_id) == []


async def commit(plane: ControlPlane, start: int, end: int) -> Any:
    claimed = await plane.claimed(await plane.queued_ingest(start, end))
    await plane.complete(claimed, outputs=[stage(plane.dispatcher.store, claimed, 0, start, end)])
    return claimed.task.task_id


async def test_a_batch_ends_the_good_and_names_the_bad(plane: ControlPlane) -> None:
    good = await plane.claimed(await plane.queued_ingest())
    bad = await plane.claimed(await plane.queued_ingest(20, 29))
    foreign = await plane.claimed(await plane.queued_ingest(40, 49))
    event = range_event(good, 0, 9) | {"dataset_uuid": uuid4()}
    answers = await complete_tasks(
        plane.dispatcher.completing,
        [
            CompleteRequest(**fence_fields(good), status="Completed"),
            CompleteRequest(**fence_fields(bad) | {"lease_token": uuid4()}, status="Completed"),
            CompleteRequest(**fence_fields(foreign), status="Completed", events=[event]),
            CompleteRequest(**fence_fields(good), status="Completed"),
        ],
    )
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == ["CompleteResponse", "StaleFence", "Forbidden", "CompleteResponse"]
    statuses = {row["id"]: row["status"] for row in plane.sql("SELECT id, status FROM tasks")}
    assert statuses[good.task.task_id] == "Completed"
    assert statuses[bad.task.task_id] == statuses[foreign.task.task_id] == "Running"


async def test_a_repeated_claim_cannot_take_what_runs(plane: ControlPlane) -> None:
    """Ten at once for one task: the claim's own predicate, not luck, lets one through."""
    task_id = await plane.queued_ingest()
    answers = await asyncio.gather(*(plane.claim(task_id, f"w{n}") for n in range(10)))
    assert [type(a).__name__ for a in answers].count("Claimed") == 1
    (row,) = plane.sql("SELECT attempt FROM tasks WHERE id = %s", task_id)
    assert row["attempt"] == 1


async def test_a_claim_that_waited_for_a_cancel_gets_nothing(plane: ControlPlane) -> None:
    """The cancel is not committed when the claim looks, and is when the claim writes."""
    task_id = await plane.queued_ingest()
    with psycopg.connect(plane.owner_dsn) as other:
        other.execute(
            "UPDATE tasks SET status = 'Canceled', cancel_requested_at = now() WHERE id = %s",
            (task_id,),
        )
        claim = asyncio.create_task(plane.claim(task_id))
        await plane.blocked(claim)
        other.commit()
    assert await claim == NotClaimed(reason="Canceled")


async def test_a_lease_that_was_extended_meanwhile_is_not_reaped(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    async with plane.dispatcher.state.transaction() as tx:
        assert await tasks.reap(tx, [claimed.task.task_id]) == []
    await plane.complete(claimed)


async def test_a_slow_older_attempt_does_not_replace_what_is_newer(plane: ControlPlane) -> None:
    """Both own their tasks; the one that started later read newer input."""
    older = await plane.claimed(await plane.queued_ingest())
    plane.sql("UPDATE tasks SET started_at = started_at - interval '1 min'")
    plane.sql("UPDATE task_attempts SET started_at = started_at - interval '1 min'")
    again = await another_ingest(plane, 0, 9)
    newer = await plane.claimed(again)
    await plane.complete(newer, outputs=[stage(plane.dispatcher.store, newer, 0, 0, 9, b"new")])
    await plane.complete(older, outputs=[stage(plane.dispatcher.store, older, 0, 0, 9, b"old!")])
    (current,) = plane.sql(
        "SELECT task_id FROM partition_versions"
        " WHERE superseded_at IS NULL AND partition_key = '0-9'"
    )
    assert current["task_id"] == newer.task.task_id


async def test_an_attempt_that_was_overtaken_in_part_is_tried_again(plane: ControlPlane) -> None:
    older = await plane.claimed(await plane.queued_ingest(0, 19))
    plane.sql("UPDATE dataset_versions SET position = position + 1")
    newer = await plane.claimed(await another_ingest(plane, 0, 9))
    await plane.complete(newer, outputs=[stage(plane.dispatcher.store, newer, 0, 0, 9)])
    with pytest.raises(CommitOvertaken) as caught:
        await plane.complete(older, outputs=[stage(plane.dispatcher.store, older, 0, 0, 19)])
    assert caught.value.retryable


async def another_ingest(plane: ControlPlane, start: int, end: int) -> UUID:
    """The task of a range that its producer committed once more."""
    task_id = uuid4()
    plane.sql(
        "INSERT INTO tasks (id, org_id, job_id, generation_id, dedupe_key, runtime, priority,"
        " inputs) SELECT %s, org_id, job_id, generation_id, dedupe_key || '@again', runtime,"
        " priority,"
        " jsonb_build_array((inputs->0) - 'changed_at'"
        " || jsonb_build_object('partition_key', %s::text, 'start', %s::bigint, 'end', %s::bigint))"
        " FROM tasks"
        " WHERE job_id = (SELECT id FROM jobs WHERE name = 'ingest') LIMIT 1",
        task_id,
        f"{start}-{end}",
        start,
        end,
    )
    return task_id


async def test_an_outage_in_a_commit_is_no_failure_of_the_attempt(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    output = stage(plane.dispatcher.store, claimed, 0, 0, 9)

    async def gone(*_: object) -> None:
        raise Unavailable("Postgres does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(partitions, "replace", gone)
        with pytest.raises(Unavailable):
            await plane.complete(claimed, outputs=[output])
    await plane.complete(claimed, outputs=[output])
