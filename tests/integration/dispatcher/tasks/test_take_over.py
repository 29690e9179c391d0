"""A worker that was started again gives up what it held, and nothing else."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.tasks.take_over import take_over
from trace_platform.wire.task import TakeOverRequest

pytestmark = pytest.mark.anyio


async def given_up(plane: ControlPlane, identity: str, incarnation: int) -> list[UUID]:
    request = TakeOverRequest(identity=identity, incarnation=incarnation)
    return [attempt.task for attempt in await take_over(plane.dispatcher.state, request)]


def status(plane: ControlPlane, task_id: UUID) -> Any:
    (row,) = plane.sql("SELECT status FROM tasks WHERE id = %s", task_id)
    return row["status"]


async def test_what_an_earlier_incarnation_held_is_tried_again_at_once(plane: ControlPlane) -> None:
    task_id = await plane.queued_split()
    before = await plane.claimed(task_id, "lite:host-1#1/4242")
    assert await given_up(plane, "lite:host-1", 2) == [task_id]
    (row,) = plane.sql("SELECT * FROM tasks WHERE id = %s", task_id)
    assert (row["status"], row["error_code"]) == ("Failed", "worker_lost")
    assert row["next_retry_at"] is not None
    # Said again, because the answer was lost: nothing is left to give up.
    assert await given_up(plane, "lite:host-1", 2) == []
    assert before.attempt == 1


async def test_what_a_newer_incarnation_holds_stays_however_late_the_word_comes(
    plane: ControlPlane,
) -> None:
    task_id = await plane.queued_split()
    await plane.claimed(task_id, "lite:host-1#10/4242")
    assert await given_up(plane, "lite:host-1", 10) == []
    assert await given_up(plane, "lite:host-1", 9) == []
    assert status(plane, task_id) == "Running"
    # By number: 11 comes after 10, and 9 before it.
    assert await given_up(plane, "lite:host-1", 11) == [task_id]


@pytest.mark.parametrize(
    "holder",
    ["lite:host-10#1/1", "lite:host-2#1/1", "ecs:cluster/service/task", "lite:host-1", "x#1/1"],
)
async def test_what_others_hold_stays(plane: ControlPlane, holder: str) -> None:
    task_id = await plane.queued_split()
    await plane.claimed(task_id, holder)
    assert await given_up(plane, "lite:host-1", 99) == []
    assert status(plane, task_id) == "Running"


async def test_a_completion_that_was_under_way_when_the_worker_was_killed_counts(
    plane: ControlPlane,
) -> None:
    task_id = await plane.queued_split()
    before = await plane.claimed(task_id, "lite:host-1#1/4242")
    await given_up(plane, "lite:host-1", 2)
    await plane.complete(before)
    assert status(plane, task_id) == "Completed"
