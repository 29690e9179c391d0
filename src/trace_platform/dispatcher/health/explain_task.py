"""What a task waits for, which limit or lease holds it, and when its turn is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from trace_platform.dispatcher.health.wait_reasons import (
    Surroundings,
    hold_reasons,
    look_around,
    start_reasons,
    stuck_reason,
)
from trace_platform.dispatcher.tasks.complete_task import MAX_OUTAGE_S
from trace_platform.dispatcher.tasks.show_task import find_task
from trace_platform.domain.attempts import of_attempts
from trace_platform.domain.figures import count, duration
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import overview
from trace_platform.state.overview import TaskNow
from trace_platform.wire.control import PRIORITIES, JobQueue, Place, Reason, Why


async def explain_task(tx: Tx, runtimes: Runtimes, org_id: UUID, task_id: UUID) -> Why:
    task = await find_task(tx, org_id, task_id)
    if task.status in ("Completed", "Canceled", "Failed"):
        return _why(task, [_ended(task)])
    around = await look_around(tx, runtimes, org_id, task.job_id)
    if task.status == "Running":
        return _why(task, list(_running(task, around)), around.queue)
    place = None
    if not task.pending_backpressure:
        place = Place.model_validate(await overview.place(tx, task), from_attributes=True)
    return _why(task, list(_waiting(task, around, place)), around.queue, place)


def _why(
    task: TaskNow, reasons: list[Reason], queue: JobQueue | None = None, place: Place | None = None
) -> Why:
    return Why(
        dag_name=task.dag_name,
        job_name=task.job_name,
        task_id=task.task_id,
        status=task.status,
        answer=reasons[0].text,
        reasons=reasons,
        place=place,
        queue=queue,
        inputs=[],
        outputs=[],
    )


def _ended(task: TaskNow) -> Reason:
    counted = of_attempts(task.attempt - task.forgiven, task.max_attempts)
    if task.status == "Completed":
        return Reason(
            code="completed",
            text=f"it completed {_ago(task, task.completed_at)}, in attempt {task.attempt}"
            f" by {task.worker_id}" + (f": {task.note}" if task.note else ""),
        )
    if task.status == "Canceled":
        return Reason(
            code="canceled",
            text=f"it was canceled {_ago(task, task.completed_at)}{_said(task)}",
            cure=f"trace tasks retry {task.task_id}",
        )
    if task.next_retry_at is not None and task.outage_since is not None:
        return _outage(task)
    if task.next_retry_at is not None:
        return Reason(
            code="retry_waits",
            text=f"attempt {counted} failed, and it is tried again"
            f" {_due(task, task.next_retry_at)}{_said(task)}",
        )
    return Reason(
        code="failed",
        text=f"it failed for good {_ago(task, task.completed_at)},"
        f" after {counted} attempts{_said(task)}",
        cure=f"mend the cause, then trace tasks retry {task.task_id}",
    )


def _outage(task: TaskNow) -> Reason:
    left_s = MAX_OUTAGE_S - (task.now - (task.outage_since or task.now)).total_seconds()
    counts = f"attempts count in {duration(left_s)}" if left_s > 0 else "attempts count by now"
    return Reason(
        code="waits_for_provider",
        text=f"what it needs is away since {_ago(task, task.outage_since)}, and it is tried again"
        f" {_due(task, task.next_retry_at)} ({counts}){_said(task)}",
        cure="it goes on by itself; trace rpc status and trace status show what is away",
    )


def _running(task: TaskNow, around: Surroundings) -> Iterator[Reason]:
    counted = of_attempts(task.attempt - task.forgiven, task.max_attempts)
    left_s = ((task.lease_expires_at or task.now) - task.now).total_seconds()
    lease = f"; its lease is good for {duration(left_s)} more" if left_s > 0 else ""
    if not lease:
        yield Reason(
            code="silent",
            text=f"{task.worker_id} went silent: the lease ended {duration(-left_s)} ago,"
            " and another attempt is about to take over",
        )
    if task.cancel_requested_at is not None:
        yield Reason(
            code="cancel_requested",
            text=f"it was asked to stop {_ago(task, task.cancel_requested_at)},"
            " and hears of it with its next heartbeat",
        )
    if task.activation == "source":
        # It runs on, and emits nothing meanwhile.
        yield from _holds(task, around)
        yield from stuck_reason(around.name, task)
    yield Reason(
        code="running",
        text=f"attempt {counted} runs on"
        f" {task.worker_id} for {_for(task, task.started_at)}{_progress(task)}{lease}",
    )


def _waiting(task: TaskNow, around: Surroundings, place: Place | None) -> Iterator[Reason]:
    yield from _holds(task, around)
    if place is None:
        yield _deferred(around)
        return
    yield from start_reasons(around)
    ahead = count(place.ahead, "task")
    yield Reason(
        code="in_line",
        text=f"among the ready tasks of {around.name} it is number {place.in_job:,} of"
        f" {place.of_job:,}; {ahead} of its organisation {_go(place.ahead)} before it",
    )
    yield Reason(
        code="wake_up",
        text=f"it is ready for {_for(task, task.queued_at)}, and should its wake-up be lost,"
        f" it is announced again {_due(task, task.announce_again_at)}",
    )


def _holds(task: TaskNow, around: Surroundings) -> Iterator[Reason]:
    priority = PRIORITIES[task.priority]
    held = [hold for hold in around.queue.holds if priority in hold.priorities]
    yield from hold_reasons(around.name, held, around.queues)


def _deferred(around: Surroundings) -> Reason:
    pressure = around.queue.pressure
    limits = "the pressure on it is gone: it is about to be announced"
    if pressure:
        ready = count(around.queue.ready, "task")
        limits = f"{ready} of it are ready, and {around.queue.deferred:,} wait"
    return Reason(
        code="deferred",
        text=f"it waits in Postgres until the queue of {around.name} is shorter; {limits}",
        cure="more workers, a higher max_concurrency, or larger limits under backpressure",
    )


def _said(task: TaskNow) -> str:
    return f": [{task.error_code}] {task.error_message}" if task.error_code else ""


def _progress(task: TaskNow) -> str:
    progress = task.progress
    return f", {progress['done']:,} of {progress['total']:,} done" if progress else ""


def _go(count: int) -> str:
    return "goes" if count == 1 else "go"


def _for(task: TaskNow, moment: datetime | None) -> str:
    return duration((task.now - (moment or task.now)).total_seconds())


def _ago(task: TaskNow, moment: datetime | None) -> str:
    return f"{_for(task, moment)} ago"


def _due(task: TaskNow, moment: datetime | None) -> str:
    left_s = ((moment or task.now) - task.now).total_seconds()
    return f"in {duration(left_s)}" if left_s > 0 else "at once"
