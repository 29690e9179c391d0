"""Messages that nobody could handle: looked at, sent again or dropped by a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from uuid import UUID

from trace_platform.domain.errors import NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import DeadLetters, DeadMessage
from trace_platform.state import overview
from trace_platform.state.overview import NamedTask
from trace_platform.wire.dead_letter import DeadLetter, DeadLetterList


async def list_dead_letters(
    state: Database, dead: DeadLetters, queue: str | None, limit: int
) -> DeadLetterList:
    """The newest first, with the tasks that they would wake."""
    found = await dead.listing(limit, queue)
    letters, total = await _described(state, found), await dead.count(queue)
    return DeadLetterList(dead_letters=letters, total=total)


async def show_dead_letter(state: Database, dead: DeadLetters, id: int) -> DeadLetter:
    found = await dead.listing(1, ids=[id])
    if not found:
        raise _unknown({id})
    (described,) = await _described(state, found)
    return described


async def change_dead_letters(
    change: Callable[[Sequence[int]], Awaitable[set[int]]], ids: Sequence[int]
) -> int:
    """How many were sent again, or dropped. Raise NotFound when none of them is there (any more):
    of several some may have gone meanwhile."""
    done = await change(ids)
    if not done:
        raise _unknown(set(ids))
    return len(done)


def _unknown(ids: set[int]) -> NotFound:
    return NotFound(f"there is no dead letter {min(ids)}", hint="trace queues dead list")


async def _described(state: Database, found: Sequence[DeadMessage]) -> list[DeadLetter]:
    wakes = [_task_of(each) for each in found]
    async with overview.snapshot(state) as tx:
        tasks = await overview.tasks_named(tx, {task_id for task_id in wakes if task_id})
    return [
        _letter(each, tasks.get(task_id) if task_id else None)
        for each, task_id in zip(found, wakes, strict=True)
    ]


def _letter(message: DeadMessage, task: NamedTask | None) -> DeadLetter:
    return DeadLetter(
        **asdict(message),
        dag_name=task.dag_name if task else None,
        job_name=task.job_name if task else None,
        task_status=task.status if task else None,
    )


def _task_of(message: DeadMessage) -> UUID | None:
    """A message may have any body: it is dead perhaps because of it."""
    try:
        return UUID(str(message.body.get("task_id")))
    except ValueError:
        return None
