"""Sources that run by themselves: runs without end, schedules, and how they are shown."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.events.record_events import record_events
from trace_platform.dispatcher.health.check_health import check_health
from trace_platform.dispatcher.health.explain import explain
from trace_platform.dispatcher.pressure.pause_job import pause_job
from trace_platform.dispatcher.pressure.resume_job import resume_job
from trace_platform.dispatcher.sources.list_schedules import list_schedules
from trace_platform.dispatcher.sources.list_sources import list_sources
from trace_platform.dispatcher.sources.tick_source import tick_source
from trace_platform.dispatcher.sources.trigger_source import trigger_source
from trace_platform.dispatcher.sources.watch_sources import watch_sources
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.dispatcher.versions.roll_back import roll_back
from trace_platform.domain.errors import BadInput, JobOnHold, NotFound
from trace_platform.wire.control import HealthRule, PauseRequest, TriggerRequest
from trace_platform.wire.dataset import DatasetWhy
from trace_platform.wire.sources import SourceStatus, TickRequest
from trace_platform.wire.task import Claimed, EventsRequest, NotClaimed

pytestmark = pytest.mark.anyio

RUN = "SELECT * FROM tasks WHERE dedupe_key = 'run'"


def always_on(
    every: float = 1, more: str = "", reader: str = "no_op", description: str = ""
) -> str:
    """A ticker, and a job that reads it."""
    said = f"\n    description: {description}" if description else ""
    return f"""
name: live
jobs:
  - name: ticks
    activation: source
    source: {{ kind: always_on }}
    runtime: ecs_platform
    operator: ticker
    config: {{ every_seconds: {every} }}{said}{more}
  - name: react
    activation: reactive
    runtime: ecs_platform
    operator: {reader}
    inputs: [{{ from: {{ job: ticks }} }}]
"""


RESET = "\n    bootstrap: { reset_outputs: true }"
GONE = """
name: live
jobs:
  - { name: other, activation: source, source: { kind: manual } }
"""


async def watch(plane: ControlPlane) -> int:
    return await watch_sources(plane.dispatcher.state, plane.dispatcher.retry_base_s)


async def settled(plane: ControlPlane) -> None:
    """Until nothing is left to watch or to announce."""
    while await watch(plane) + await advance_deploys(plane.dispatcher.state):
        pass
    await plane.settle()


async def running(plane: ControlPlane, yaml: str | None = None) -> Claimed:
    """The run of the deployed source, claimed."""
    await plane.deploy(yaml or always_on())
    await settled(plane)
    (task_id,) = plane.wake_ups()
    return await plane.claimed(task_id)


async def claimed_again(plane: ControlPlane) -> Claimed:
    """The next attempt of the only run that waits."""
    plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE next_retry_at IS NOT NULL")
    await requeue_failed(plane.dispatcher.state)
    (row,) = plane.sql(RUN + " AND status = 'Queued'")
    return await plane.claimed(row["id"])


async def emit(plane: ControlPlane, run: Claimed, *cursors: int) -> int:
    output = run.task.outputs[0]
    events: Any = [
        {
            "dataset_uuid": output.dataset_uuid,
            "dataset_version": output.dataset_version,
            "cursor": cursor,
        }
        for cursor in cursors
    ]
    request = EventsRequest(
        task_id=run.task.task_id, attempt=run.attempt, lease_token=run.lease_token, events=events
    )
    return await record_events(plane.dispatcher.state, request, plane.dispatcher.grants.trusts)


async def shown(plane: ControlPlane) -> dict[str, SourceStatus]:
    found = await list_sources(plane.dispatcher.state, plane.dispatcher.org_id)
    return {source.job_name: source for source in found.sources}


async def state_of(plane: ControlPlane, job: str = "ticks") -> str:
    return (await shown(plane))[job].state


def row_of(plane: ControlPlane, run: Claimed) -> dict[str, Any]:
    (row,) = plane.sql("SELECT * FROM tasks WHERE id = %s", run.task.task_id)
    return row


async def source_health(plane: ControlPlane) -> HealthRule:
    health = await check_health(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.runtimes,
        plane.dispatcher.org_id,
    )
    return next(rule for rule in health.rules if rule.code == "source_heartbeat")


async def test_an_active_source_gets_one_run_however_many_watch(plane: ControlPlane) -> None:
    await plane.deploy(always_on())
    assert (await shown(plane))["ticks"].state == "Pending"
    await asyncio.gather(*(watch(plane) for _ in range(5)))
    await settled(plane)
    (run,) = plane.sql(RUN)
    assert plane.wake_ups() == [run["id"]]
    assert (run["inputs"], run["status"]) == ([], "Queued")
    claimed = await plane.claimed(run["id"])
    assert claimed.task.timeout_seconds == 82_800
    assert await state_of(plane) == "Running"
    assert await watch(plane) == 0


async def test_a_run_that_ends_by_itself_is_dead_and_then_started_again(
    plane: ControlPlane,
) -> None:
    run = await running(plane)
    await plane.complete(run)
    await settled(plane)
    row = row_of(plane, run)
    assert (row["status"], row["error_code"]) == ("Failed", "source_ended")
    assert row["next_retry_at"] is not None
    found = (await shown(plane))["ticks"]
    assert (found.state, found.next_retry_at) == ("Dead", row["next_retry_at"])
    again = await claimed_again(plane)
    assert (again.task.task_id, again.attempt) == (run.task.task_id, 2)


async def test_a_failure_that_no_attempt_mends_is_tried_again_all_the_same(
    plane: ControlPlane,
) -> None:
    run = await running(plane)
    await plane.complete(run, status="Failed", retryable=False, error_code="invalid_config")
    await settled(plane)
    found = (await shown(plane))["ticks"]
    assert (found.state, found.error_code) == ("Dead", "invalid_config")
    assert (await claimed_again(plane)).attempt == 2


async def test_the_pause_grows_until_an_attempt_ran_well(plane: ControlPlane) -> None:
    run = await running(plane)

    async def pause_s() -> float:
        await plane.complete(run)
        await settled(plane)
        (row,) = plane.sql(
            "SELECT extract(epoch FROM next_retry_at - completed_at)::float8 AS s FROM tasks"
        )
        return float(row["s"])

    for _ in range(4):
        await pause_s()
        run = await claimed_again(plane)
    assert await pause_s() >= 8, "half of 16 s at least"
    run = await claimed_again(plane)
    plane.sql("UPDATE tasks SET started_at = clock_timestamp() - interval '10 minutes'")
    assert await watch(plane) == 1
    assert await watch(plane) == 0
    assert row_of(plane, run)["forgiven"] == run.attempt - 1
    assert await pause_s() < 8


async def test_a_run_that_a_user_canceled_stays_so_until_it_is_retried(
    plane: ControlPlane,
) -> None:
    run = await running(plane)
    await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, run.task.task_id)
    assert (await plane.beat(run)).directive == "cancel"
    assert await state_of(plane) == "Draining"
    await plane.complete(run, status="Canceled")
    await settled(plane)
    assert row_of(plane, run)["status"] == "Canceled"
    assert await state_of(plane) == "Canceled"
    # Nor does another definition of the same source wake it.
    await plane.deploy(always_on(every=2))
    await settled(plane)
    assert await state_of(plane) == "Canceled"
    await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, run.task.task_id)
    await settled(plane)
    assert (await plane.claimed(run.task.task_id)).task.config == {"every_seconds": 2}


async def test_a_changed_definition_drains_the_run_and_starts_it_at_once(
    plane: ControlPlane,
) -> None:
    run = await running(plane)
    assert (await plane.beat(run)).directive == "continue"
    await plane.deploy(always_on(every=5))
    assert (await plane.beat(run)).directive == "drain"
    assert await state_of(plane) == "Draining"
    await plane.complete(run)
    await settled(plane)
    again = await plane.claimed(run.task.task_id)
    assert again.task.config == {"every_seconds": 5}
    assert again.task.outputs[0].dataset_version == run.task.outputs[0].dataset_version
    assert row_of(plane, run)["forgiven"] == 1, "to end as told is no failure"
    assert (await plane.beat(again)).directive == "continue"


async def test_a_heartbeat_during_the_deploy_keeps_the_lease(plane: ControlPlane) -> None:
    run = await running(plane)
    await plane.deploy(always_on(every=5))
    (job,) = plane.sql("SELECT job_id FROM tasks")
    plane.sql(
        "UPDATE tasks SET job_id = (SELECT id FROM jobs WHERE name = 'ticks' AND id <> %s)",
        job["job_id"],
    )
    async with plane.dispatcher.state.transaction() as tx:
        # As a deploy hands the run over, not committed yet.
        await tx.execute("UPDATE tasks SET job_id = %s", (job["job_id"],))
        beat = asyncio.create_task(plane.beat(run))
        await plane.blocked(beat)
    assert (await beat).directive == "drain"


async def test_a_run_that_was_dead_comes_back_under_the_new_definition(
    plane: ControlPlane,
) -> None:
    run = await running(plane)
    await plane.complete(run, status="Failed", retryable=False)
    await plane.deploy(always_on(every=5))
    await settled(plane)
    assert (await claimed_again(plane)).task.config == {"every_seconds": 5}


async def test_a_paused_source_ends_gives_its_slot_back_and_goes_on_once_resumed(
    plane: ControlPlane,
) -> None:
    run = await running(plane)
    await pause_job(
        plane.dispatcher.state, plane.dispatcher.org_id, "live", "ticks", PauseRequest()
    )
    assert (await plane.beat(run)).directive == "drain"
    assert await state_of(plane) == "Draining"
    await plane.complete(run)
    await settled(plane)
    assert (await state_of(plane), row_of(plane, run)["status"]) == ("Paused", "Queued")
    assert await plane.claim(run.task.task_id) == NotClaimed(reason="Held")
    plane.wake_ups()
    await resume_job(plane.dispatcher.state, plane.dispatcher.org_id, "live", "ticks")
    await plane.settle()
    assert plane.wake_ups() == [run.task.task_id]
    again = await plane.claimed(run.task.task_id)
    assert (await plane.beat(again)).directive == "continue"
    assert await state_of(plane) == "Running"


async def test_a_source_that_is_resumed_before_it_ended_is_started_again_at_once(
    plane: ControlPlane,
) -> None:
    run = await running(plane)
    await pause_job(
        plane.dispatcher.state, plane.dispatcher.org_id, "live", "ticks", PauseRequest()
    )
    assert (await plane.beat(run)).directive == "drain"
    await resume_job(plane.dispatcher.state, plane.dispatcher.org_id, "live", "ticks")
    assert (await plane.beat(run)).directive == "drain"
    await plane.complete(run)
    await settled(plane)
    assert (await plane.claimed(run.task.task_id)).attempt == 2


async def test_a_source_that_is_held_for_a_consumer_keeps_its_slot(plane: ControlPlane) -> None:
    run = await running(plane)
    plane.sql(
        "INSERT INTO job_holds (org_id, dag_name, job_name, cause, from_rank, reason)"
        " SELECT org_id, 'live', 'ticks', id::text, 0, 'behind' FROM jobs WHERE name = 'react'"
    )
    assert (await plane.beat(run)).directive == "pause"
    plane.sql("DELETE FROM job_holds")
    assert (await plane.beat(run)).directive == "continue"


async def test_a_removed_source_drains_and_what_it_still_says_is_routed_nowhere(
    plane: ControlPlane,
) -> None:
    run = await running(plane)
    assert await emit(plane, run, 1) == 1
    await plane.settle()
    assert len(plane.wake_ups()) == 1
    await plane.deploy(GONE)
    await settled(plane)
    assert (await plane.beat(run)).directive == "drain"
    assert await state_of(plane) == "Draining"
    assert await emit(plane, run, 2) == 1
    await plane.settle()
    assert plane.sql("SELECT 1 FROM events WHERE routed_at IS NULL") == []
    assert plane.sql("SELECT 1 FROM tasks WHERE inputs @> '[{\"cursor\": 2}]'") == []
    await plane.complete(run)
    await settled(plane)
    assert row_of(plane, run)["status"] == "Canceled"
    assert "ticks" not in await shown(plane)
    assert (await plane.claim(run.task.task_id)).status == "NotClaimed"


async def test_an_activation_resets_outputs_once_and_a_rollback_brings_them_back(
    plane: ControlPlane,
) -> None:
    first = await running(plane, always_on(more=RESET))
    assert await emit(plane, first, 1, 2) == 2
    await plane.settle()
    plane.wake_ups()
    # The same file again resets nothing.
    same = await deploy_dag(
        plane.dispatcher.state, plane.dispatcher.org_id, always_on(more=RESET), "dag.yaml"
    )
    assert (same.status, same.builds) == ("Unchanged", [])
    await settled(plane)
    assert (await plane.beat(first)).directive == "continue"
    # Another definition begins with nothing, and with a run of its own.
    await plane.deploy(always_on(every=5, more=RESET))
    await settled(plane)
    assert (await plane.beat(first)).directive == "drain"
    await plane.complete(first)
    await settled(plane)
    (row,) = plane.sql(RUN + " AND status = 'Queued'")
    second = await plane.claimed(row["id"])
    old, new = (run.task.outputs[0].dataset_version for run in (first, second))
    assert second.task.task_id != first.task.task_id
    assert new != old
    current = "SELECT current_version AS v FROM datasets WHERE job_name = 'ticks'"
    assert plane.sql(current) == [{"v": new}]
    assert plane.sql("SELECT 1 FROM events WHERE dataset_version = %s", new) == []
    # And back.
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "live")
    await settled(plane)
    assert plane.sql(current) == [{"v": old}]
    kept = plane.sql("SELECT cursor FROM events WHERE dataset_version = %s ORDER BY 1", old)
    assert [event["cursor"] for event in kept] == [1, 2]
    assert (await plane.beat(second)).directive == "drain"
    await plane.complete(second)
    await settled(plane)
    back = await plane.claimed(first.task.task_id)
    assert (back.attempt, back.task.outputs[0].dataset_version) == (2, old)
    assert plane.sql("SELECT 1 FROM tasks WHERE id = %s AND status = 'Queued'", row["id"]) == []


async def test_a_version_that_is_built_waits_for_no_run(plane: ControlPlane) -> None:
    one, two = always_on(more=RESET), always_on(every=5, more=RESET)
    first = await running(plane, one)
    await plane.deploy(two)
    await settled(plane)
    # The first one is still at work when its generation comes back.
    await plane.deploy(one)
    await settled(plane)
    await plane.complete(first)
    await settled(plane)
    assert plane.sql("SELECT 1 FROM deploys WHERE status <> 'CutOver'") == []
    runs = {row["id"]: row["status"] for row in plane.sql(RUN)}
    assert runs.pop(first.task.task_id) in ("Queued", "Failed")
    assert list(runs.values()) == ["Canceled"]


@pytest.mark.parametrize("end", ["Completed", "Canceled", "Failed"])
async def test_how_a_run_ended_keeps_no_version_from_coming_back(
    plane: ControlPlane, end: str
) -> None:
    one, two = always_on(more=RESET), always_on(every=5, more=RESET)
    first = await running(plane, one)
    if end == "Canceled":
        await cancel_task(plane.dispatcher.state, plane.dispatcher.org_id, first.task.task_id)
    await plane.complete(first, status=end, retryable=False)
    await plane.deploy(two)
    await settled(plane)
    await plane.deploy(one)
    await settled(plane)
    assert plane.sql("SELECT 1 FROM deploys WHERE status <> 'CutOver'") == []
    if end == "Canceled":
        # What a user canceled stays so until it is retried.
        await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, first.task.task_id)
    again = await claimed_again(plane)
    assert (again.task.task_id, again.attempt) == (first.task.task_id, 2)


REFUSED = "[malformed_block] block 8 holds a bad value"


async def stuck(plane: ControlPlane, stuck_s: float, **heard: Any) -> Claimed:
    """A run that says that it does not get on."""
    run = await running(plane)
    told = {"done": 0, "total": 0, "stuck": REFUSED, "stuck_s": stuck_s, **heard}
    await plane.beat(run, progress=told)
    return run


async def test_a_source_that_does_not_get_on_says_so_everywhere(plane: ControlPlane) -> None:
    """It was Running, fresh and healthy for 23 minutes, and the cause stood once in a log."""
    run = await stuck(plane, 90, done=7, total=12, heard_s=3)
    listed = (await shown(plane))["ticks"]
    assert (listed.state, listed.stuck, listed.stuck_s) == ("Stuck", REFUSED, 90)
    assert (listed.last, listed.head, listed.heard_s) == (7, 12, 3)

    rule = await source_health(plane)
    assert rule.firing
    assert "live.ticks does not get on for 1m 30s" in rule.text
    assert "the head, 12, was heard of 3.0 s ago" in rule.text
    assert REFUSED in rule.text

    for subject in (run.task.task_id, "live.ticks", "live.ticks.0"):
        told = await explain(
            plane.dispatcher.state,
            plane.dispatcher.data,
            plane.dispatcher.runtimes,
            plane.dispatcher.org_id,
            str(subject),
        )
        assert told.reasons[0].code == "source_stuck", subject
        assert REFUSED in told.answer
    assert isinstance(told, DatasetWhy)
    assert told.state == "stale"


async def why_dataset(plane: ControlPlane) -> DatasetWhy:
    answer = await explain(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.runtimes,
        plane.dispatcher.org_id,
        "live.ticks.0",
    )
    assert isinstance(answer, DatasetWhy)
    return answer


async def test_a_dataset_is_as_fresh_as_its_source_is_near_the_head(plane: ControlPlane) -> None:
    run = await running(plane)
    await plane.beat(run, progress={"done": 1_000, "total": 6_000, "heard_s": 2})
    behind = await why_dataset(plane)
    assert (behind.state, behind.reasons[0].code) == ("stale", "behind")
    assert "stands at 1,000, 5,000 behind the head, 6,000, which was heard of 2.0 s ago" in (
        behind.answer
    )
    # A head that has just moved on is no delay, and what is known of it is said all the same.
    await plane.beat(run, progress={"done": 5_998, "total": 6_000, "heard_s": 1})
    near = await why_dataset(plane)
    assert (near.state, [each.code for each in near.reasons][1:]) == ("fresh", ["head"])
    assert "the head, 6,000, which was heard of 1.0 s ago" in near.reasons[1].text


async def test_a_node_that_was_never_heard_has_no_head(plane: ControlPlane) -> None:
    await stuck(plane, 90)
    listed = (await shown(plane))["ticks"]
    assert (listed.last, listed.head, listed.heard_s) == (None, None, None)
    assert "its head was never heard of" in (await source_health(plane)).text


async def test_a_hiccup_of_a_node_is_waited_out(plane: ControlPlane) -> None:
    run = await stuck(plane, 4, done=7, total=12, heard_s=3)
    assert await state_of(plane) == "Running"
    assert not (await source_health(plane)).firing
    await plane.beat(run, progress={"done": 12, "total": 12, "heard_s": 0})
    assert (await shown(plane))["ticks"].stuck is None


async def test_health_says_which_source_is_dead(plane: ControlPlane) -> None:
    run = await running(plane)
    assert not (await source_health(plane)).firing
    await plane.complete(run, status="Failed", error_code="rpc_unreachable")
    rule = await source_health(plane)
    assert rule.firing
    assert "live.ticks is dead" in rule.text
    assert "rpc_unreachable" in rule.text
    await claimed_again(plane)
    assert not (await source_health(plane)).firing


# Schedules.


def cron(schedule: str = "*/5 * * * *", more: str = "", outputs: int = 1) -> str:
    return f"""
name: timed
jobs:
  - name: clock
    activation: source
    source: {{ kind: cron, schedule: "{schedule}"{more} }}
    outputs: {outputs}
  - name: react
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{{ from: {{ job: clock }} }}]
"""


async def tick(plane: ControlPlane, *ticks: datetime, done_until: datetime | None = None) -> int:
    request = TickRequest(
        dag_name="timed", job_name="clock", ticks=list(ticks), done_until=done_until
    )
    return await tick_source(plane.dispatcher.state, plane.dispatcher.org_id, request)


async def scheduled(plane: ControlPlane, yaml: str | None = None) -> datetime:
    """The database's time, some while after a schedule was deployed."""
    await plane.deploy(yaml or cron())
    await settled(plane)
    plane.sql("UPDATE active_dags SET activated_at = activated_at - interval '1 hour'")
    plane.sql("UPDATE source_ticks SET last_tick = last_tick - interval '1 hour'")
    return (await list_schedules(plane.dispatcher.state, plane.dispatcher.org_id)).now


async def last_tick(plane: ControlPlane) -> datetime:
    (schedule,) = (await list_schedules(plane.dispatcher.state, plane.dispatcher.org_id)).schedules
    return schedule.last_tick


async def test_a_tick_is_an_event_on_every_output_and_the_same_again_is_none(
    plane: ControlPlane,
) -> None:
    now = await scheduled(plane, cron(outputs=2))
    one, two = now - timedelta(minutes=2), now - timedelta(minutes=1)
    assert await tick(plane, one, two) == 4
    assert await tick(plane, one, two) == 0
    assert await last_tick(plane) == two
    assert await tick(plane, one) == 0
    assert await last_tick(plane) == two, "it never goes back"
    rows = plane.sql("SELECT DISTINCT cursor FROM events ORDER BY 1")
    assert [row["cursor"] for row in rows] == [int(one.timestamp()), int(two.timestamp())]
    await plane.settle()
    assert len(plane.wake_ups()) == 2


async def test_schedulers_that_say_the_same_at_once_make_one_event(plane: ControlPlane) -> None:
    now = await scheduled(plane)
    accepted = await asyncio.gather(*(tick(plane, now) for _ in range(6)))
    assert sorted(accepted) == [0, 0, 0, 0, 0, 1]


async def test_a_new_source_starts_from_when_it_became_active(plane: ControlPlane) -> None:
    await plane.deploy(cron())
    await settled(plane)
    (row,) = plane.sql("SELECT activated_at FROM active_dags")
    assert await last_tick(plane) == row["activated_at"]
    assert await tick(plane, row["activated_at"] - timedelta(minutes=1)) == 0


async def test_what_was_skipped_is_not_due_again(plane: ControlPlane) -> None:
    now = await scheduled(plane)
    assert await tick(plane, done_until=now) == 0
    assert await last_tick(plane) == now
    assert plane.sql("SELECT 1 FROM events") == []


async def test_a_tick_of_the_future_is_refused(plane: ControlPlane) -> None:
    now = await scheduled(plane)
    with pytest.raises(BadInput):
        await tick(plane, now + timedelta(minutes=1))
    assert plane.sql("SELECT 1 FROM events") == []


async def test_a_source_on_hold_emits_no_ticks_and_misses_them(plane: ControlPlane) -> None:
    now = await scheduled(plane)
    before = await last_tick(plane)
    await pause_job(
        plane.dispatcher.state, plane.dispatcher.org_id, "timed", "clock", PauseRequest()
    )
    (schedule,) = (await list_schedules(plane.dispatcher.state, plane.dispatcher.org_id)).schedules
    assert schedule.on_hold
    with pytest.raises(JobOnHold):
        await tick(plane, now)
    await resume_job(plane.dispatcher.state, plane.dispatcher.org_id, "timed", "clock")
    assert await last_tick(plane) == before
    assert await tick(plane, now) == 1


async def test_a_deploy_that_leaves_the_schedule_forgets_no_tick(plane: ControlPlane) -> None:
    await scheduled(plane)
    before = await last_tick(plane)
    await plane.deploy(cron().replace("operator: no_op", "operator: no_op\n    priority: low"))
    await settled(plane)
    assert await last_tick(plane) == before


async def test_another_schedule_owes_nothing_of_the_time_before(plane: ControlPlane) -> None:
    await scheduled(plane)
    before = await last_tick(plane)
    await plane.deploy(cron("* * * * *"))
    await settled(plane)
    changed = await last_tick(plane)
    assert changed > before + timedelta(minutes=59)
    plane.sql("UPDATE source_ticks SET last_tick = last_tick - interval '1 hour'")
    await roll_back(plane.dispatcher.state, plane.dispatcher.org_id, "timed")
    await settled(plane)
    assert await last_tick(plane) >= changed


async def test_a_source_that_comes_back_owes_nothing_of_the_time_it_was_gone(
    plane: ControlPlane,
) -> None:
    await scheduled(plane)
    before = await last_tick(plane)
    await plane.deploy(GONE.replace("name: live", "name: timed"))
    await settled(plane)
    assert (await list_schedules(plane.dispatcher.state, plane.dispatcher.org_id)).schedules == []
    with pytest.raises(NotFound):
        await tick(plane, datetime.now(UTC))
    await plane.deploy(cron())
    await settled(plane)
    assert await last_tick(plane) > before + timedelta(minutes=59)


async def test_only_a_cron_source_ticks_and_only_a_manual_one_is_triggered(
    plane: ControlPlane,
) -> None:
    await scheduled(plane)
    request = TickRequest(dag_name="timed", job_name="react", ticks=[])
    with pytest.raises(BadInput):
        await tick_source(plane.dispatcher.state, plane.dispatcher.org_id, request)
    with pytest.raises(BadInput) as caught:
        await trigger_source(
            plane.dispatcher.state,
            plane.dispatcher.org_id,
            "timed",
            "clock",
            TriggerRequest(start=0, end=9),
        )
    assert "trace events emit timed.clock" in (caught.value.hint or "")


async def test_health_says_which_schedule_is_not_kept(plane: ControlPlane) -> None:
    await plane.deploy(cron())
    await settled(plane)
    assert not (await source_health(plane)).firing
    plane.sql("UPDATE source_ticks SET last_tick = clock_timestamp() - interval '12 minutes'")
    rule = await source_health(plane)
    assert rule.firing
    assert "timed.clock ticked 12m" in rule.text
    await pause_job(
        plane.dispatcher.state, plane.dispatcher.org_id, "timed", "clock", PauseRequest()
    )
    assert not (await source_health(plane)).firing


async def test_the_list_says_when_and_where_a_source_emits_next(plane: ControlPlane) -> None:
    await scheduled(plane)
    await plane.deploy(
        "name: hooked\njobs:\n"
        "  - { name: calls, activation: source, source: { kind: webhook, secret: hook_key } }\n"
        "  - { name: hands, activation: source, source: { kind: manual } }\n"
    )
    found = await shown(plane)
    assert {name: source.state for name, source in found.items()} == dict.fromkeys(
        ("clock", "calls", "hands"), "Active"
    )
    assert found["calls"].path == "/v1/hooks/hooked/calls"
    now = (await list_schedules(plane.dispatcher.state, plane.dispatcher.org_id)).now
    next_tick = found["clock"].next_tick
    assert next_tick is not None
    assert now - timedelta(minutes=1) < next_tick <= now + timedelta(minutes=5)
    assert next_tick.minute % 5 == 0
    assert found["hands"].last_event_age_s is None
    await plane.trigger(0, 9, "hooked", "hands")
    assert (await shown(plane))["hands"].last_event_age_s is not None
    await pause_job(
        plane.dispatcher.state, plane.dispatcher.org_id, "hooked", "hands", PauseRequest()
    )
    assert await state_of(plane, "hands") == "Paused"
