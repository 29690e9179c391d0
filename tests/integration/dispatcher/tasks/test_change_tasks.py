"""Many tasks that are canceled or retried with one request, and lists that fold what is alike."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.pipeline import Job, Pipeline
from trace_platform.dispatcher.health.describe import dag_status, group_tasks, list_tasks
from trace_platform.dispatcher.tasks import change_tasks
from trace_platform.dispatcher.tasks.change_tasks import cancel_tasks, retry_tasks
from trace_platform.domain.errors import BadInput, NotFound
from trace_platform.wire.control import SelectedTasks, TaskSelection

pytestmark = pytest.mark.anyio

CHAIN = {"a": Job(), "b": Job(("a",))}


async def retry(pipe: Pipeline, **chosen: Any) -> SelectedTasks:
    dispatcher = pipe.plane.dispatcher
    return await retry_tasks(dispatcher.state, dispatcher.org_id, TaskSelection(**chosen))


async def cancel(pipe: Pipeline, **chosen: Any) -> SelectedTasks:
    dispatcher = pipe.plane.dispatcher
    return await cancel_tasks(dispatcher.state, dispatcher.org_id, TaskSelection(**chosen))


async def queued(pipe: Pipeline, ranges: int) -> None:
    await pipe.deploy(CHAIN)
    await pipe.trigger(*((10 * n, 10 * n + 9) for n in range(ranges)))
    await pipe.plane.settle()


async def failed(pipe: Pipeline, ranges: int) -> None:
    """For good, at moments that are an hour apart, the first an hour ago."""
    await queued(pipe, ranges)
    pipe.plane.sql(
        "UPDATE tasks SET status = 'Failed', error_code = 'rpc_unreachable', attempt = 3,"
        " completed_at = clock_timestamp() - make_interval(hours => n::integer)"
        " FROM (SELECT id AS of, row_number() OVER (ORDER BY id) AS n FROM tasks) g WHERE id = of"
    )


async def test_what_failed_for_good_is_counted_and_then_retried(
    pipe: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_tasks, "TOGETHER", 2)
    await failed(pipe, 5)
    meant = await retry(pipe, dag_name="p", dry_run=True)
    assert [(each.job_name, each.status, each.tasks) for each in meant.jobs] == [("a", "Failed", 5)]
    assert pipe.plane.sql("SELECT 1 FROM live_tasks") == [], "nothing was done yet"
    done = await retry(pipe, dag_name="p", until=meant.until)
    assert done.tasks == 5
    assert sorted(set(await pipe.settle())) == ["p.a", "p.b"]
    assert (await retry(pipe, dag_name="p")).tasks == 0


async def test_tasks_are_chosen_by_job_and_by_when_they_ended(pipe: Pipeline) -> None:
    await failed(pipe, 5)
    (now,) = pipe.plane.sql("SELECT clock_timestamp() AS now")
    early, late = (now["now"] - timedelta(hours=hours) for hours in (3.5, 1.5))
    assert (await retry(pipe, job_name="b", dry_run=True)).tasks == 0
    assert (await retry(pipe, since=early, dry_run=True)).tasks == 3
    assert (await retry(pipe, since=early, until=late)).tasks == 2
    assert (await retry(pipe, status="Canceled", dry_run=True)).tasks == 0


async def test_what_has_not_ended_is_canceled_but_for_what_another_job_has(pipe: Pipeline) -> None:
    await queued(pipe, 4)
    (running,) = await pipe.claim(1)
    assert (await cancel(pipe, job_name="b")).tasks == 0
    done = await cancel(pipe, dag_name="p")
    assert {each.status: each.tasks for each in done.jobs} == {"Queued": 3, "Running": 1}
    assert (await cancel(pipe, dag_name="p")).tasks == 0, "what was told is not told again"
    (row,) = pipe.plane.sql(
        "SELECT cancel_requested_at FROM tasks WHERE id = %s", running.task.task_id
    )
    assert row["cancel_requested_at"] is not None
    assert (await retry(pipe, dag_name="p", status="Canceled")).tasks == 3


async def test_what_cannot_be_meant_is_refused(pipe: Pipeline) -> None:
    await queued(pipe, 1)
    for chosen in ({}, {"status": "Completed"}):
        with pytest.raises(BadInput):
            await retry(pipe, **chosen)
    with pytest.raises(BadInput):
        await cancel(pipe, status="Canceled")
    with pytest.raises(NotFound):
        await retry(pipe, dag_name="q")


async def test_tasks_that_are_alike_are_one_row_and_hide_nothing(pipe: Pipeline) -> None:
    await queued(pipe, 30)
    dispatcher = pipe.plane.dispatcher
    pipe.plane.sql(
        "UPDATE tasks SET status = 'Completed', completed_at = clock_timestamp()"
        " FROM (SELECT id AS of, row_number() OVER (ORDER BY id) AS n FROM tasks) g"
        " WHERE id = of AND n > 3"
    )
    pipe.plane.sql(
        "UPDATE tasks SET status = 'Failed', error_code = 'wrong_chain'"
        " WHERE id = (SELECT id FROM tasks ORDER BY id LIMIT 1)"
    )
    found = await group_tasks(dispatcher.state, dispatcher.org_id, None, 20)
    assert [(each.newest.status, each.tasks) for each in found.groups] == [
        ("Completed", 27),
        ("Queued", 1),
        ("Queued", 1),
        ("Failed", 1),
    ]
    assert found.groups[0].first_at < found.groups[0].last_at
    assert not found.more
    assert (await group_tasks(dispatcher.state, dispatcher.org_id, "p", 2)).more
    with pytest.raises(NotFound):
        await group_tasks(dispatcher.state, dispatcher.org_id, "q", 2)


async def test_a_list_says_that_there_are_more(pipe: Pipeline) -> None:
    await queued(pipe, 3)
    dispatcher = pipe.plane.dispatcher
    cut = await list_tasks(dispatcher.state, dispatcher.org_id, None, None, None, 2)
    whole = await list_tasks(dispatcher.state, dispatcher.org_id, None, None, None, 3)
    assert [(len(each.tasks), each.more) for each in (cut, whole)] == [(2, True), (3, False)]


async def test_a_dag_says_since_when_something_is_open_and_that_more_will_come(
    pipe: Pipeline,
) -> None:
    await queued(pipe, 3)
    dispatcher = pipe.plane.dispatcher
    (oldest,) = pipe.plane.sql("SELECT min(created_at) AS made FROM tasks")
    now = await dag_status(dispatcher.state, dispatcher.org_id, "p")
    assert (now.oldest_open, now.routing) == (oldest["made"], False)
    await pipe.settle()
    assert (await dag_status(dispatcher.state, dispatcher.org_id, "p")).oldest_open is None
    pipe.plane.sql(
        "INSERT INTO data_invalidations (org_id, dataset_uuid, dataset_version, scope,"
        " partition_key, range_start, range_end, remade, reason)"
        " SELECT org_id, uuid, current_version, 'row_range', '0-9', 0, 9, true, 'a test'"
        "   FROM datasets WHERE name = 'p_a'"
    )
    assert (await dag_status(dispatcher.state, dispatcher.org_id, "p")).routing, (
        "its readers do it again soon"
    )
