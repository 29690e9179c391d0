"""Messages that nobody could handle: seen, sent again, dropped, and not kept for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.control_plane import SECRETS, ControlPlane
from trace_platform.dispatcher.storage.prune_history import Keep, prune

pytestmark = pytest.mark.anyio

USER = {"Authorization": f"Bearer {SECRETS.user_token}"}
QUEUE = "ecs_platform"


@pytest.fixture
async def http(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=plane.app)
    async with httpx.AsyncClient(
        transport=transport, base_url="https://dispatcher", headers=USER
    ) as client:
        yield client


async def bury(plane: ControlPlane, queue: str = QUEUE, *bodies: dict[str, Any]) -> None:
    """Received ten times, and never acknowledged."""
    if bodies:
        await plane.queue.send(queue, list(bodies))
    for _ in range(11):
        plane.received.receive(queue, 100, 0)


async def dead(http: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await http.get("/v1/dead-letters", params=query)).json()
    return found


async def change(http: httpx.AsyncClient, what: str, *ids: int) -> httpx.Response:
    return await http.post(f"/v1/dead-letters/{what}", json={"ids": list(ids)})


async def test_a_dead_wake_up_says_which_task_it_would_wake(
    plane: ControlPlane, http: httpx.AsyncClient
) -> None:
    await plane.deploy()
    await plane.trigger(0, 9)
    await plane.settle()
    await bury(plane)
    found = await dead(http)
    (letter,) = found["dead_letters"]
    assert (found["total"], letter["queue"], letter["receives"]) == (1, QUEUE, 10)
    assert (letter["dag_name"], letter["job_name"], letter["task_status"]) == (
        *("chain", "split"),
        "Queued",
    )
    assert (await http.get(f"/v1/dead-letters/{letter['id']}")).json() == letter
    assert (await http.get("/v1/queues")).json()["dead_letters"] == 1


async def test_a_dead_letter_that_is_sent_again_is_received(
    plane: ControlPlane, http: httpx.AsyncClient
) -> None:
    await bury(plane, QUEUE, {"task_id": "nobody's"})
    (letter,) = (await dead(http))["dead_letters"]
    assert letter["task_status"] is None, "whatever its body is"
    assert (await change(http, "resend", letter["id"])).json() == {"accepted": 1}
    (message,) = plane.received.receive(QUEUE, 10, 0)
    assert message.body == {"task_id": "nobody's"}
    assert (await dead(http))["total"] == 0


async def test_a_dropped_dead_letter_is_gone(plane: ControlPlane, http: httpx.AsyncClient) -> None:
    await bury(plane, "one", {"n": 1})
    await bury(plane, "two", {"n": 2}, {"n": 3})
    of_two = await dead(http, queue="two", limit=1)
    assert (len(of_two["dead_letters"]), of_two["total"]) == (1, 2)
    (letter,) = of_two["dead_letters"]
    assert (await change(http, "drop", letter["id"])).json() == {"accepted": 1}
    assert (await dead(http))["total"] == 2
    assert plane.received.receive("two", 10, 0) == []


@pytest.mark.parametrize("what", ["resend", "drop"])
async def test_what_is_no_dead_letter_is_said(http: httpx.AsyncClient, what: str) -> None:
    answer = await change(http, what, 7)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await change(http, what)).status_code == 422
    assert (await http.get("/v1/dead-letters/7")).status_code == 404


async def test_dead_letters_and_messages_that_nobody_takes_are_kept_for_a_time(
    plane: ControlPlane, http: httpx.AsyncClient
) -> None:
    dispatcher, keep = plane.dispatcher, Keep(message_days=14)
    await bury(plane, QUEUE, {"n": 1})
    await plane.queue.send("buffer", [{"n": 2}])
    await prune(dispatcher.state, dispatcher.data, dispatcher.dead_letters, keep)
    assert (await dead(http))["total"] == 1
    for table, column in (("dead_letters", "died_at"), ("messages", "sent_at")):
        plane.sql(f"UPDATE queue.{table} SET {column} = {column} - interval '15 days'")
    await plane.queue.send("buffer", [{"n": 3}])
    await prune(dispatcher.state, dispatcher.data, dispatcher.dead_letters, keep)
    assert (await dead(http))["total"] == 0
    assert [each.body for each in plane.received.receive("buffer", 10, 0)] == [{"n": 3}]
