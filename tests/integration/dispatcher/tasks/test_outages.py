"""A node, Postgres data or the store is away: the task waits, and its attempts do not count."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.integration.dispatcher.sources import test_sources as sources
from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.health.check_health import check_health
from trace_platform.dispatcher.health.explain import explain
from trace_platform.dispatcher.sources.watch_sources import watch_sources
from trace_platform.dispatcher.tasks.reap_leases import reap_leases
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.drivers.postgres.queries import Row
from trace_platform.wire.control import HealthRule, Why
from trace_platform.wire.task import Claimed

pytestmark = pytest.mark.anyio

HOURS = "6 hours 1 minute"


async def fails(
    plane: ControlPlane,
    task_id: UUID,
    *,
    outage: bool,
    after_s: float = 0.0,
    claimed: Claimed | None = None,
) -> Row:
    """The task, once this attempt of it, or another one, has failed."""
    if claimed is None:
        plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE next_retry_at > now()")
        await requeue_failed(plane.dispatcher.state)
        claimed = await plane.claimed(task_id)
    await plane.complete(
        claimed,
        status="Failed",
        error_code="rpc_unreachable",
        error_message="the node is away",
        outage=outage,
        retry_after_s=after_s,
    )
    (task,) = plane.sql(
        "SELECT *, extract(epoch FROM next_retry_at - completed_at)::float8 AS pause_s"
        " FROM tasks WHERE id = %s",
        task_id,
    )
    return task


def age(plane: ControlPlane, task_id: UUID, by: str) -> None:
    plane.sql("UPDATE tasks SET outage_since = now() - %s::interval WHERE id = %s", by, task_id)


async def why(plane: ControlPlane, subject: object) -> Why:
    found = await explain(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.runtimes,
        plane.dispatcher.org_id,
        str(subject),
    )
    assert isinstance(found, Why)
    return found


async def outages(plane: ControlPlane) -> HealthRule:
    health = await check_health(
        plane.dispatcher.state,
        plane.dispatcher.data,
        plane.dispatcher.runtimes,
        plane.dispatcher.org_id,
    )
    return next(rule for rule in health.rules if rule.code == "outages")


async def test_any_number_of_attempts_during_an_outage_costs_none(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    for _ in range(7):
        task = await fails(plane, task_id, outage=True)
        assert task["next_retry_at"] is not None
    assert task["attempt"] == task["forgiven"] == 7
    assert (await fails(plane, task_id, outage=False))["next_retry_at"] is not None


async def test_the_pause_grows_with_the_outage_up_to_five_minutes(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    first = await fails(plane, task_id, outage=True)
    assert first["pause_s"] < 5
    age(plane, task_id, "1 minute")
    assert 29 <= (await fails(plane, task_id, outage=True))["pause_s"] < 62
    age(plane, task_id, "2 hours")
    assert 149 <= (await fails(plane, task_id, outage=True))["pause_s"] < 301


async def test_the_provider_is_left_alone_for_as_long_as_it_asks(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    assert round((await fails(plane, task_id, outage=True, after_s=700))["pause_s"]) == 700


async def test_attempts_count_once_an_outage_has_lasted_for_hours(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    await fails(plane, task_id, outage=True)
    age(plane, task_id, HOURS)
    left = [(await fails(plane, task_id, outage=True))["next_retry_at"] for _ in range(3)]
    assert [at is None for at in left] == [False, False, True]
    assert [reason.code for reason in (await why(plane, task_id)).reasons] == ["failed"]

    await retry_task(plane.dispatcher.state, plane.dispatcher.org_id, task_id)
    task = await fails(plane, task_id, outage=True)
    assert task["next_retry_at"] is not None, "a retry by hand begins anew"
    assert (task["outage_since"] - task["completed_at"]).total_seconds() < 1


async def test_another_failure_ends_the_outage(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    await fails(plane, task_id, outage=True)
    age(plane, task_id, HOURS)
    assert (await fails(plane, task_id, outage=False))["outage_since"] is None
    assert (await fails(plane, task_id, outage=True))["forgiven"] == 2


async def test_a_worker_that_is_lost_ends_the_outage(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    await fails(plane, task_id, outage=True)
    age(plane, task_id, HOURS)
    plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE id = %s", task_id)
    await requeue_failed(plane.dispatcher.state)
    await plane.claimed(task_id)
    plane.sql(
        "UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'"
        " WHERE status = 'Running'"
    )
    assert len(await reap_leases(plane.dispatcher.state)) == 1
    assert (await fails(plane, task_id, outage=True))["forgiven"] == 2, "another one begins"


async def test_a_source_that_runs_well_has_found_what_was_away(plane: ControlPlane) -> None:
    run = await sources.running(plane)
    task_id = run.task.task_id
    await fails(plane, task_id, outage=True, claimed=run)
    plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE id = %s", task_id)
    await requeue_failed(plane.dispatcher.state)
    again = await plane.claimed(task_id)
    age(plane, task_id, HOURS)
    assert (await outages(plane)).firing, "it may still wait"
    plane.sql("UPDATE tasks SET started_at = clock_timestamp() - interval '10 minutes'")
    assert await watch_sources(plane.dispatcher.state, 1.0) == 1
    assert await watch_sources(plane.dispatcher.state, 1.0) == 0
    assert not (await outages(plane)).firing
    task = await fails(plane, task_id, outage=True, claimed=again)
    assert task["pause_s"] < 5, "the pause is that of an outage that has begun"


async def test_why_says_what_is_away_and_since_when(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    await fails(plane, task_id, outage=True)
    age(plane, task_id, "90 seconds")
    answer = await why(plane, task_id)
    assert [reason.code for reason in answer.reasons] == ["waits_for_provider"]
    assert answer.answer.startswith("what it needs is away since 1m 30s ago")
    assert "[rpc_unreachable] the node is away" in answer.answer
    assert "attempts count in 5h 58m" in answer.answer
    of_job = await why(plane, f"{answer.dag_name}.{answer.job_name}")
    assert of_job.reasons[0].code == "waits_for_provider"
    assert "1 task of chain.ingest waits" in of_job.answer
    assert "[rpc_unreachable] the node is away" in of_job.answer


async def test_an_outage_of_minutes_is_no_alarm_and_a_longer_one_is(plane: ControlPlane) -> None:
    task_id = await plane.queued_ingest()
    assert not (await outages(plane)).firing
    await fails(plane, task_id, outage=True)
    assert not (await outages(plane)).firing
    age(plane, task_id, "6 minutes")
    rule = await outages(plane)
    assert rule.firing
    assert "1 task of chain.ingest found something away for 6m" in rule.text
    assert "the node is away" in rule.text
    plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE next_retry_at > now()")
    await requeue_failed(plane.dispatcher.state)
    await plane.complete(await plane.claimed(task_id), status="Canceled")
    assert not (await outages(plane)).firing, "it ended"


async def test_outages_use_up_nothing_of_what_interruptions_are_forgiven(
    plane: ControlPlane,
) -> None:
    task_id = await plane.queued_ingest()
    await fails(plane, task_id, outage=True)
    plane.sql(
        "UPDATE tasks SET attempt = 108, forgiven = 108, outages = 108 WHERE id = %s", task_id
    )
    plane.sql("UPDATE tasks SET next_retry_at = clock_timestamp() WHERE id = %s", task_id)
    await requeue_failed(plane.dispatcher.state)
    claimed = await plane.claimed(task_id)
    await plane.complete(claimed, status="Failed", error_code="commit_overtaken", interrupted=True)
    (task,) = plane.sql("SELECT attempt, forgiven, outages FROM tasks WHERE id = %s", task_id)
    assert (task["attempt"], task["forgiven"], task["outages"]) == (109, 109, 108)
