"""Every queue is at-least-once: what is not acknowledged comes back, what is, does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import psycopg
import pytest

from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.lite.pgqueue import PgQueueReceiver, PgQueueSender
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import QueueReceiver, QueueSender

pytestmark = pytest.mark.anyio


class Pair(NamedTuple):
    sender: QueueSender
    receiver: QueueReceiver


@pytest.fixture
async def queue(state_dsns: Any) -> AsyncIterator[Pair]:
    database = Database(state_dsns.dispatcher)
    await database.open()
    receiver = PgQueueReceiver(state_dsns.queue)
    yield Pair(PgQueueSender(database), receiver)
    receiver.close()
    await database.close()


async def test_messages_arrive_once_while_they_are_hidden(queue: Pair) -> None:
    await queue.sender.send("q", [{"n": n} for n in range(5)])
    first = queue.receiver.receive("q", 3, 60)
    second = queue.receiver.receive("q", 3, 60)
    assert sorted(m.body["n"] for m in [*first, *second]) == [0, 1, 2, 3, 4]
    assert queue.receiver.receive("q", 3, 60) == []


async def test_an_unacknowledged_message_comes_back(queue: Pair) -> None:
    await queue.sender.send("q", [{"n": 1}])
    (lost,) = queue.receiver.receive("q", 1, 0)
    (again,) = queue.receiver.receive("q", 1, 60)
    assert lost.body == again.body


async def test_an_acknowledged_message_is_gone(queue: Pair) -> None:
    await queue.sender.send("q", [{"n": 1}])
    (message,) = queue.receiver.receive("q", 1, 0)
    queue.receiver.ack([message.receipt])
    queue.receiver.ack([message.receipt])
    assert queue.receiver.receive("q", 1, 0) == []


async def test_a_stale_receipt_does_not_remove_a_message_that_came_back(queue: Pair) -> None:
    await queue.sender.send("q", [{"n": 1}])
    (stale,) = queue.receiver.receive("q", 1, 0)
    (_,) = queue.receiver.receive("q", 1, 0)
    queue.receiver.ack([stale.receipt])
    assert len(queue.receiver.receive("q", 1, 0)) == 1


async def test_a_waiting_receiver_hears_of_a_message(queue: Pair) -> None:
    waiting = asyncio.create_task(asyncio.to_thread(queue.receiver.receive, "q", 1, 60, 60))
    await queue.sender.send("other", [{"n": 0}])
    await queue.sender.send("q", [{"n": 1}])
    (message,) = await asyncio.wait_for(waiting, 30)
    assert message.body == {"n": 1}
    assert queue.receiver.receive("q", 1, 60, 0.01) == []


async def test_queues_do_not_see_each_other(queue: Pair) -> None:
    await queue.sender.send("a", [{"n": 1}])
    assert queue.receiver.receive("b", 1, 0) == []


async def test_a_message_nobody_can_handle_ends_in_the_dead_letters(
    queue: Pair, state_dsns: Any
) -> None:
    await queue.sender.send("q", [{"n": 1}])
    for _ in range(10):
        assert len(queue.receiver.receive("q", 1, 0)) == 1
    assert queue.receiver.receive("q", 1, 0) == []
    with psycopg.connect(state_dsns.owner) as owner:
        assert owner.execute("SELECT body FROM queue.dead_letters").fetchall() == [({"n": 1},)]


async def test_a_limit_holds_whatever_the_planner_believes(queue: Pair, state_dsns: Any) -> None:
    """Statistics of a nearly empty table made a receive of one return them all."""
    await queue.sender.send("q", [{"n": 0}])
    with psycopg.connect(state_dsns.owner, autocommit=True) as owner:
        owner.execute("VACUUM ANALYZE queue.messages")
    await queue.sender.send("q", [{"n": n} for n in range(1, 41)])
    assert len(queue.receiver.receive("q", 1, 60)) == 1


async def test_a_lost_connection_is_unavailable_and_then_replaced(
    queue: Pair, state_dsns: Any, postgres: Any
) -> None:
    await queue.sender.send("q", [{"n": 1}])
    queue.receiver.receive("none", 1, 0)
    with postgres.admin() as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'trace_queue'"
        )
    with pytest.raises(Unavailable):
        queue.receiver.receive("q", 1, 0)
    assert len(queue.receiver.receive("q", 1, 0)) == 1


async def test_the_worker_role_reaches_the_queue_and_nothing_else(state_dsns: Any) -> None:
    with psycopg.connect(state_dsns.queue, autocommit=True) as worker:
        worker.execute("SELECT * FROM queue.receive('q', 1, 1)")
        for forbidden in (
            "SELECT * FROM tasks",
            "SELECT * FROM queue.messages",
            "DELETE FROM queue.messages",
            "SELECT queue.send('q', '[]')",
            "UPDATE tasks SET status = 'Completed'",
            "CREATE TABLE mine (a int)",
            "CREATE FUNCTION queue.x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                worker.execute(forbidden.encode())
