"""What a job waits for: what holds it, what it has to do, and when its inputs last changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal
from uuid import UUID

from trace_platform.dispatcher.checks.withheld_reasons import by_reader, withheld_reasons
from trace_platform.dispatcher.health.wait_reasons import (
    Surroundings,
    by_name,
    hold_reasons,
    look_around,
    pressure_reason,
    start_reasons,
    stuck_reason,
)
from trace_platform.dispatcher.pressure.list_queues import holds_of, job_queues
from trace_platform.dispatcher.versions.find_job import find_job
from trace_platform.domain.figures import count, duration
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import checks, overview, sources
from trace_platform.state.dags import ActiveJob
from trace_platform.state.overview import JobFailure, Outage
from trace_platform.state.sources import ListedSource
from trace_platform.wire.control import PRIORITIES, Hold, JobQueue, LastEvent, Reason, Why


async def explain_job(
    tx: Tx, runtimes: Runtimes, org_id: UUID, dag_name: str, job_name: str
) -> Why:
    job = await find_job(tx, org_id, dag_name, job_name)
    inputs = [
        LastEvent.model_validate(row, from_attributes=True)
        for row in await overview.inputs_of_job(tx, job.id)
    ]
    rows = await overview.newest_outputs(tx, org_id, dag_name, job_name)
    outputs = [LastEvent.model_validate(row, from_attributes=True) for row in rows]
    name = f"{dag_name}.{job_name}"
    if job.runtime is None:
        found = await holds_of(tx, org_id, dag_name, job_name)
        held = [hold for hold in found if PRIORITIES[job.priority] in hold.priorities]
        queues = by_name(await job_queues(tx, org_id))
        return _why(job, list(_source(name, held, queues, outputs)), None, inputs, outputs)
    around = await look_around(tx, runtimes, org_id, job.id)
    failure = await overview.newest_failure(tx, job.id)
    outages = [o for o in await overview.outages(tx, org_id) if _is_of(o, job)]
    withheld = by_reader(await checks.standing(tx, org_id))
    reasons = [
        *withheld_reasons(name, withheld.get((dag_name, job_name), ())),
        *await _stuck(tx, org_id, job),
        *map(_outage, outages),
        *_work(around),
        *_arriving(name, around.queue, failure, inputs),
    ]
    return _why(job, reasons, around.queue, inputs, outputs)


def _why(
    job: ActiveJob,
    reasons: list[Reason],
    queue: JobQueue | None,
    inputs: list[LastEvent],
    outputs: list[LastEvent],
) -> Why:
    return Why(
        dag_name=job.dag_name,
        job_name=job.name,
        task_id=None,
        status=None,
        answer=reasons[0].text,
        reasons=reasons,
        place=None,
        queue=queue,
        inputs=inputs,
        outputs=outputs,
    )


def _is_of(row: Outage | ListedSource, job: ActiveJob) -> bool:
    return (row.dag_name, row.job_name) == (job.dag_name, job.name)


async def _stuck(tx: Tx, org_id: UUID, job: ActiveJob) -> list[Reason]:
    if job.activation != "source":
        return []
    runs = [run for run in await sources.listing(tx, org_id) if _is_of(run, job)]
    name = f"{job.dag_name}.{job.name}"
    return [reason for run in runs for reason in stuck_reason(name, run)]


def _outage(row: Outage) -> Reason:
    said = f": [{row.error_code}] {row.error_message}" if row.error_code else ""
    waits = "waits" if row.tasks == 1 else "wait"
    return Reason(
        code="waits_for_provider",
        text=f"{count(row.tasks, 'task')} of {row.dag_name}.{row.job_name} {waits} for"
        f" something that is away since {duration(row.lasts_s)} ago{said}",
        cure="they go on by themselves; trace rpc status and trace status show what is away",
    )


def _source(
    name: str, held: list[Hold], queues: dict[str, JobQueue], outputs: list[LastEvent]
) -> Iterator[Reason]:
    """A source that people or programs feed: nothing of it runs here."""
    yield from hold_reasons(name, held, queues)
    yield from _not_routed(outputs)
    emitted = [event for event in outputs if event.age_s is not None]
    dag_name, _, job_name = name.partition(".")
    last = min(emitted, key=lambda event: event.age_s or 0.0, default=None)
    yield Reason(
        code="source",
        text=f"{name} emits when it is told to; {_newest(last) if last else 'it never was'}",
        cure=f"trace sources trigger {dag_name} {job_name} --from A --to B",
    )


def _work(around: Surroundings) -> Iterator[Reason]:
    queue = around.queue
    held = [hold for hold in queue.holds if queue.priority in hold.priorities]
    yield from hold_reasons(around.name, held, around.queues)
    if queue.pressure:
        yield pressure_reason(around.name, queue.pressure)
    if queue.ready:
        yield from start_reasons(around)
    oldest = f", the oldest for {duration(queue.oldest_age_s)}" if queue.oldest_age_s else ""
    counts: list[tuple[Literal["running", "ready", "deferred", "retrying"], int, str]] = [
        ("running", queue.running, "running"),
        ("ready", queue.ready, f"ready{oldest}"),
        ("deferred", queue.deferred, "deferred until the queue is shorter"),
        ("retrying", queue.retrying, "waiting to be tried again"),
    ]
    found = [(code, f"{count:,} {words}") for code, count, words in counts if count]
    if found:
        yield Reason(
            code=found[0][0], text=f"tasks of {around.name}: {', '.join(w for _, w in found)}"
        )


def _arriving(
    name: str, queue: JobQueue, failure: JobFailure | None, inputs: list[LastEvent]
) -> Iterator[Reason]:
    """What its inputs did, and how that ended: a failure since the newest event is the news."""
    yield from _not_routed(inputs)
    youngest = min((event.age_s for event in inputs if event.age_s is not None), default=0.0)
    idle = [] if _is_busy(queue) else [_idle(name, inputs)]
    failing = [_failing(name, failure)] if failure else []
    is_news = failure is not None and failure.age_s <= youngest
    yield from [*failing, *idle] if is_news else [*idle, *failing]


def _is_busy(queue: JobQueue) -> bool:
    return bool(queue.ready + queue.deferred + queue.running + queue.retrying)


def _failing(name: str, failure: JobFailure) -> Reason:
    return Reason(
        code="failing",
        text=f"a task of {name} failed for good {duration(failure.age_s)} ago:"
        f" [{failure.error_code}] {failure.error_message}",
        cure=f"mend the cause, then trace tasks retry {failure.task_id}",
    )


def _idle(name: str, inputs: list[LastEvent]) -> Reason:
    """It has nothing to do: because its inputs did not change, or never did."""
    seen = [event for event in inputs if event.age_s is not None]
    if seen:
        last = min(seen, key=lambda event: event.age_s or 0.0)
        return Reason(
            code="idle",
            text=f"{name} has nothing to do; {_newest(last)}",
            cure=f"trace why {last.producer}",
        )
    names = ", ".join(event.dataset for event in inputs)
    producer = inputs[0].producer if inputs else ""
    return Reason(
        code="no_events",
        text=f"{name} has nothing to do: there was never an event of {names}",
        cure=f"trace why {producer}" if producer else None,
    )


def _not_routed(events: list[LastEvent]) -> Iterator[Reason]:
    for event in events:
        if event.routed is False:
            yield Reason(
                code="not_routed",
                text=f"event {event.event_id} of {event.dataset} ({event.scope}) is recorded, and"
                f" its tasks are not made yet, after {duration(event.age_s or 0.0)}",
                cure="trace status shows whether the dispatcher runs",
            )


def _newest(event: LastEvent) -> str:
    return (
        f"the newest event of {event.dataset} ({event.scope}) is {duration(event.age_s or 0.0)} old"
    )
