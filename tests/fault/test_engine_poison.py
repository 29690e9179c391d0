"""One row that Postgres refuses to touch: everything beside it goes on.

The poison is a trigger that raises for a single row, as a check that a migration added, a damaged
page or a defect of ours would.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from tests.support.control_plane import ControlPlane, fence_fields, stage
from tests.support.engine_stack import dag, job
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.events.publish_outbox import publish_outbox
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.tasks.complete_task import complete_tasks
from trace_platform.dispatcher.tasks.heartbeat import heartbeat
from trace_platform.dispatcher.tasks.reap_leases import reap_leases
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.domain.errors import TraceError
from trace_platform.wire.control import EmitRequest
from trace_platform.wire.task import (
    Claimed,
    CompleteRequest,
    CompleteResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)

pytestmark = pytest.mark.anyio

TASKS = 8
# Neither the first nor the last, so that there is something on both sides of it.
BAD = 3


@pytest.fixture
async def plane(state_dsns: Any, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    opened = await ControlPlane.open(state_dsns, tmp_path)
    yield opened
    await opened.close()


@contextmanager
def poisoned(plane: ControlPlane, table: str, row: str, event: str = "UPDATE") -> Iterator[None]:
    """`row` is a condition on NEW."""
    plane.sql(
        "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'poisoned row'; END $$"
    )
    plane.sql(
        f"CREATE TRIGGER poison BEFORE {event} ON {table} FOR EACH ROW"
        f" WHEN ({row}) EXECUTE FUNCTION poison()"
    )
    yield
    plane.sql(f"DROP TRIGGER poison ON {table}")
    plane.sql("DROP FUNCTION poison")


async def emit(plane: ControlPlane, cursors: Sequence[int]) -> None:
    events = [{"cursor": cursor} for cursor in cursors]
    request = EmitRequest.model_validate({"dataset": "poison.source", "events": events})
    await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, request)


async def deployed(plane: ControlPlane) -> None:
    await plane.deploy(dag("poison", [job("work", "no_op", {}, "    outputs: [rows]\n")]))


async def queued(plane: ControlPlane) -> list[UUID]:
    await deployed(plane)
    await emit(plane, range(TASKS))
    await plane.settle()
    return sorted(plane.wake_ups())


async def claimed(plane: ControlPlane) -> list[Claimed]:
    return [await plane.claimed(task_id) for task_id in await queued(plane)]


def statuses(plane: ControlPlane) -> list[str]:
    """In the order in which the tasks were made."""
    return [row["status"] for row in plane.sql("SELECT status FROM tasks ORDER BY id")]


def all_but_bad(status: str, bad: str) -> list[str]:
    return [bad if n == BAD else status for n in range(TASKS)]


async def test_the_reaper_gives_up_all_leases_but_the_poisoned_one(plane: ControlPlane) -> None:
    attempts = await claimed(plane)
    plane.sql("UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'")
    with poisoned(plane, "tasks", f"NEW.id = '{attempts[BAD].task.task_id}'"):
        assert len(await reap_leases(plane.dispatcher.state)) == TASKS - 1
    assert statuses(plane) == all_but_bad("Failed", "Running")
    assert len(await reap_leases(plane.dispatcher.state)) == 1


async def test_retries_are_queued_all_but_the_poisoned_one(plane: ControlPlane) -> None:
    attempts = await claimed(plane)
    plane.sql("UPDATE tasks SET lease_expires_at = clock_timestamp() - interval '1 s'")
    await reap_leases(plane.dispatcher.state)
    with poisoned(plane, "tasks", f"NEW.id = '{attempts[BAD].task.task_id}'"):
        await requeue_failed(plane.dispatcher.state)
    assert statuses(plane) == all_but_bad("Queued", "Failed")


async def test_an_event_that_cannot_be_routed_holds_up_none_recorded_with_it(
    plane: ControlPlane,
) -> None:
    await deployed(plane)
    await emit(plane, range(TASKS))
    await emit(plane, range(TASKS, 2 * TASKS))
    with poisoned(plane, "tasks", f"NEW.dedupe_key ~ 'cursor:{BAD}$'", "INSERT"):
        await plane.settle()
        assert len(plane.wake_ups()) == 2 * TASKS - 1
    # It was put off, not given up.
    plane.sql("UPDATE outbox SET available_at = clock_timestamp()")
    await plane.settle()
    assert len(plane.wake_ups()) == 1


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("route", {}),
        ("route", {"event_ids": "all"}),
        ("route", {"event_ids": [2**63]}),
        ("enqueue", {}),
        ("enqueue", {"runtime": "ecs_platform"}),
        ("enqueue", {"runtime": "ecs_platform", "task_ids": 7}),
        ("enqueue", {"runtime": "nowhere", "task_ids": []}),
        ("buffer", {}),
    ],
)
async def test_an_outbox_row_that_makes_no_sense_holds_up_no_other(
    plane: ControlPlane, kind: str, payload: dict[str, Any]
) -> None:
    (task_id, *_) = await queued(plane)
    # Before and after it in line: an event to route, and an announcement that is owed.
    announce = "INSERT INTO outbox (kind, payload) VALUES ('enqueue', %s)"
    owed = Jsonb({"runtime": "ecs_platform", "task_ids": [str(task_id)]})
    plane.sql(announce, owed)
    plane.sql("INSERT INTO outbox (kind, payload) VALUES (%s, %s)", kind, Jsonb(payload))
    plane.sql(announce, owed)
    await emit(plane, [TASKS])
    for _ in range(3):
        await publish(plane)
    assert len(plane.wake_ups()) >= 3


async def publish(plane: ControlPlane) -> None:
    """As the dispatcher's loop: what fails is logged there, and the next turn comes."""
    try:
        await publish_outbox(plane.publishing())
    except Exception as error:
        print(f"publish_outbox: {error!r}")
    # What was hidden for a while comes to light.
    plane.sql("UPDATE outbox SET available_at = least(available_at, clock_timestamp())")


class Refusals:
    """Requests that one item of a batch of completions can be refused for."""

    @staticmethod
    def stale(claimed: Claimed) -> dict[str, Any]:
        return {"lease_token": uuid4()}

    @staticmethod
    def unstorable(claimed: Claimed) -> dict[str, Any]:
        return {"status": "Failed", "error_message": "no text: \0"}

    @staticmethod
    def forbidden(claimed: Claimed) -> dict[str, Any]:
        event = {"dataset_uuid": uuid4(), "dataset_version": uuid4(), "cursor": 1}
        return {"events": [event]}

    @staticmethod
    def poisoned(claimed: Claimed) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("why", ["stale", "unstorable", "forbidden", "poisoned"])
async def test_one_refused_completion_leaves_the_others_of_its_batch_alone(
    plane: ControlPlane, why: str
) -> None:
    attempts = await claimed(plane)
    reports = [fence_fields(attempt) | {"status": "Completed"} for attempt in attempts]
    reports[BAD] |= getattr(Refusals, why)(attempts[BAD])
    row = f"NEW.id = '{attempts[BAD].task.task_id}'" if why == "poisoned" else "false"
    with poisoned(plane, "tasks", row):
        answers = await complete_tasks(
            plane.dispatcher.completing,
            [CompleteRequest.model_validate(report) for report in reports],
        )
    assert isinstance(answers.pop(BAD), TraceError)
    assert answers == [CompleteResponse(status="Completed")] * (TASKS - 1)
    assert statuses(plane) == all_but_bad("Completed", "Running")


async def test_one_refused_commit_leaves_the_others_of_its_batch_alone(plane: ControlPlane) -> None:
    attempts = await claimed(plane)
    reports = [
        fence_fields(attempt)
        | {"status": "Completed", "outputs": [stage(plane.dispatcher.store, attempt, 0, n, n)]}
        for n, attempt in enumerate(attempts)
    ]
    row = f"NEW.task_id = '{attempts[BAD].task.task_id}'"
    with poisoned(plane, "partition_versions", row, "INSERT"):
        answers = await complete_tasks(
            plane.dispatcher.completing,
            [CompleteRequest.model_validate(report) for report in reports],
        )
    assert isinstance(answers.pop(BAD), TraceError)
    assert answers == [CompleteResponse(status="Completed")] * (TASKS - 1)
    assert statuses(plane) == all_but_bad("Completed", "Running")
    assert plane.sql("SELECT count(*) AS n FROM partition_versions") == [{"n": TASKS - 1}]


async def test_one_poisoned_lease_costs_the_others_of_its_batch_nothing(
    plane: ControlPlane,
) -> None:
    attempts = await claimed(plane)
    beats = [HeartbeatRequest.model_validate(fence_fields(attempt)) for attempt in attempts]
    with poisoned(plane, "tasks", f"NEW.id = '{attempts[BAD].task.task_id}'"):
        answers = await heartbeat(plane.dispatcher.state, beats)
    assert isinstance(answers.pop(BAD), TraceError)
    assert all(isinstance(answer, HeartbeatResponse) for answer in answers)


async def test_a_task_that_cannot_be_started_is_passed_over_by_claims(
    plane: ControlPlane,
) -> None:
    task_ids = await queued(plane)
    with poisoned(plane, "tasks", f"NEW.id = '{task_ids[BAD]}'"):
        found = await claim_tasks(
            plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", ["w"] * TASKS
        )
    assert len(found) == TASKS - 1


async def test_a_task_whose_inputs_make_no_sense_is_passed_over_by_claims(
    plane: ControlPlane,
) -> None:
    task_ids = await queued(plane)
    plane.sql("UPDATE tasks SET inputs = '[{}]' WHERE id = %s", task_ids[BAD])
    found = await claim_tasks(
        plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", ["w"] * TASKS
    )
    assert len(found) >= TASKS - 1
