"""What keeps ready tasks of a job from starting, as sentences with a cure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from uuid import UUID

from trace_platform.dispatcher.health.check_health import cannot_poll, free_slots
from trace_platform.dispatcher.pressure.list_queues import job_queues
from trace_platform.dispatcher.sources.list_sources import stuck_s, stuck_words
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.figures import count, duration
from trace_platform.domain.runtimes import Runtime, Runtimes
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import overview
from trace_platform.state.overview import AliveWorker, SlotHolder, TaskNow
from trace_platform.state.sources import ListedSource
from trace_platform.wire.control import Hold, JobQueue, Pressure, Reason

# Of the tasks that hold a job's slots.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What there is around a job: the other queues, the workers, the runtimes."""

    queue: JobQueue
    queues: dict[str, JobQueue]
    workers: list[AliveWorker]
    runtimes: Runtimes
    holders: list[SlotHolder]

    @property
    def name(self) -> str:
        return f"{self.queue.dag_name}.{self.queue.job_name}"


async def look_around(tx: Tx, runtimes: Runtimes, org_id: UUID, job_id: UUID) -> Surroundings:
    queues = await job_queues(tx, org_id)
    return Surroundings(
        queue=queues[job_id],
        queues=by_name(queues),
        workers=await overview.workers(tx),
        runtimes=runtimes,
        holders=await overview.slot_holders(tx, job_id, _SHOWN),
    )


def by_name(queues: dict[UUID, JobQueue]) -> dict[str, JobQueue]:
    return {f"{queue.dag_name}.{queue.job_name}": queue for queue in queues.values()}


def hold_reasons(name: str, held: list[Hold], queues: dict[str, JobQueue]) -> Iterator[Reason]:
    """A user's first."""
    for hold in sorted(held, key=lambda hold: hold.cause != "user"):
        if hold.cause == "user":
            yield _paused(name, hold)
        else:
            yield _held(name, hold, queues.get(hold.cause))


def pressure_reason(name: str, pressure: Pressure) -> Reason:
    does = {
        "pause": "new tasks wait in Postgres, and its producers are held",
        "coalesce": "new events are taken into one waiting task",
        "drop_oldest": "the oldest waiting tasks are canceled",
    }
    return Reason(
        code="pressure",
        text=f"{name} is under pressure: its queue held {_measured(pressure)};"
        f" {does[pressure.mode]}",
        cure="more workers, a higher max_concurrency, or larger limits under backpressure",
    )


def start_reasons(around: Surroundings) -> Iterator[Reason]:
    """What else has to be there for a ready task to start."""
    try:
        runtime = around.runtimes.get(around.queue.runtime)
    except InvalidConfig as error:
        yield Reason(code="runtime_off", text=f"it cannot run: {error.message}", cure=error.hint)
        return
    limit = around.queue.max_concurrency
    if limit is not None and around.queue.running >= limit:
        yield _at_limit(around, limit)
    elif runtime.kind == "queue":
        yield from _worker_reasons(around, runtime)


def stuck_reason(name: str, run: ListedSource | TaskNow) -> Iterator[Reason]:
    """Of a source that runs, by its `progress`."""
    if stuck_s(run):
        yield Reason(
            code="source_stuck",
            text=f"{name} {stuck_words(run)}: {(run.progress or {})['stuck']}",
            cure="trace rpc status shows its nodes; it goes on by itself",
        )


def _paused(name: str, hold: Hold) -> Reason:
    since = hold.since.astimezone(UTC)
    return Reason(
        code="paused",
        text=f"{name} is paused since {since:%Y-%m-%d %H:%M:%S} UTC: {hold.reason}",
        cure=f"trace resume {name}",
    )


def _held(name: str, hold: Hold, behind: JobQueue | None) -> Reason:
    now = f"; it has {behind.ready + behind.deferred:,} now" if behind else ""
    return Reason(
        code="held_for_consumer",
        text=f"{name} is held until {hold.cause} catches up: {hold.reason}{now}",
        cure=f"it goes on by itself; trace why {hold.cause} says what keeps that one",
    )


def _measured(pressure: Pressure) -> str:
    """1,200 tasks (limit 1,000), the oldest 3m 10s old (limit 1m 0s)"""
    depth = count(pressure.depth, "task")
    if pressure.max_depth is not None:
        depth = f"{depth} (limit {pressure.max_depth:,})"
    if pressure.max_age_s is None:
        return depth
    return (
        f"{depth}, the oldest {duration(pressure.age_s)} old (limit {duration(pressure.max_age_s)})"
    )


def _at_limit(around: Surroundings, limit: int) -> Reason:
    shown = ", ".join(
        f"{row.task_id} on {row.worker_id} for {duration(row.running_s)}" for row in around.holders
    )
    more = " and others" if around.queue.running > len(around.holders) else ""
    return Reason(
        code="at_limit",
        text=f"{around.name} runs {around.queue.running:,} of at most {count(limit, 'task')}"
        f" at once: {shown}{more}",
        cure="wait for one of them to end, or raise scaling.max_concurrency in the DAG file",
    )


def _worker_reasons(around: Surroundings, runtime: Runtime) -> Iterator[Reason]:
    alive = [worker for worker in around.workers if worker.runtime == runtime.name]
    sources = around.queue.is_source
    slots = sum(worker.source_slots if sources else worker.slots for worker in alive)
    if not alive:
        yield Reason(
            code="no_worker",
            text=f"no worker of {runtime.name} is alive",
            cure="trace status shows the processes; trace up, or trace serve worker, starts one",
        )
    elif all(map(cannot_poll, alive)):
        yield Reason(
            code="workers_cannot_poll",
            text=f"{_workers(len(alive))} of {runtime.name} cannot get at the queue",
            cure="trace logs worker says why: is Postgres up, are its connections taken?",
        )
    elif sources and not free_slots(around.workers, runtime.name, sources=True):
        yield Reason(
            code="source_slots_full",
            text=f"all {slots} source slots of {_workers(len(alive))} of {runtime.name} are taken",
            cure="raise [worker] source_slots in config.toml, pause a source, or add a worker",
        )
    elif not sources and not free_slots(around.workers, runtime.name):
        yield Reason(
            code="workers_full",
            text=f"all {slots} slots of {_workers(len(alive))} of {runtime.name} are busy",
            cure="more workers, or more [worker] slots in config.toml",
        )


def _workers(count: int) -> str:
    return "the one worker" if count == 1 else f"{count} workers"
