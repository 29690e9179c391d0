"""What was lost is found again; what is old is forgotten; what is alive is neither."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.integration.dispatcher.tasks.test_claims import dag, emit, take
from tests.support.control_plane import ControlPlane, stage
from trace_platform.dispatcher.events.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.storage.prune_history import prune_history

pytestmark = pytest.mark.anyio


async def committed(plane: ControlPlane) -> None:
    claimed = await plane.claimed(await plane.queued_ingest())
    outputs = [stage(plane.dispatcher.store, claimed, n, 0, 9) for n in range(3)]
    await plane.complete(claimed, outputs=outputs)
    await plane.settle()


async def test_a_partition_whose_event_was_lost_is_announced_again(plane: ControlPlane) -> None:
    await committed(plane)
    assert await reconcile_partitions(plane.dispatcher.state) == 0
    plane.sql("DELETE FROM events WHERE identity LIKE '%%@%%'")
    assert await reconcile_partitions(plane.dispatcher.state) == 3
    assert await reconcile_partitions(plane.dispatcher.state) == 0
    rows = plane.sql("SELECT partition_key FROM events WHERE identity LIKE '%%@%%'")
    assert [row["partition_key"] for row in rows] == ["0-9"] * 3


def age(plane: ControlPlane, task_id: UUID, days: int) -> None:
    """The task, and all events, are so much older: also its id says so."""
    ago = f"interval '{days} days'"
    plane.sql(
        f"UPDATE tasks SET id = uuid7_at(created_at - {ago}), created_at = created_at - {ago},"
        f" completed_at = completed_at - {ago} WHERE id = %s",
        task_id,
    )
    plane.sql(f"UPDATE events SET recorded_at = recorded_at - {ago}")


async def test_old_tasks_are_forgotten_and_live_ones_kept(plane: ControlPlane) -> None:
    await plane.deploy(dag("d", work=""))
    await emit(plane, "d.source", 1, 2)
    done, _ = await take(plane, 2)
    await plane.complete(done)
    age(plane, done.task.task_id, 100)
    assert await prune_history(plane.dispatcher.state, keep_days=365) == 0
    assert await prune_history(plane.dispatcher.state, keep_days=90) > 0
    (left,) = plane.sql("SELECT status FROM tasks")
    assert left["status"] == "Running"


async def test_the_event_of_a_current_partition_is_never_forgotten(plane: ControlPlane) -> None:
    await committed(plane)
    plane.sql("UPDATE events SET recorded_at = recorded_at - interval '400 days'")
    await prune_history(plane.dispatcher.state, keep_days=90)
    kept = plane.sql("SELECT materialisation IS NULL AS emitted FROM events ORDER BY id")
    # And so are the ranges that nothing else stands for: a rebuild starts from them.
    assert [row["emitted"] for row in kept] == [True, True, False, False, False]
    assert await reconcile_partitions(plane.dispatcher.state) == 0
