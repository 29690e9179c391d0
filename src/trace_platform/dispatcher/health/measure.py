"""What waits, runs and lags, read in one snapshot and put where Prometheus looks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from uuid import UUID

from trace_platform.dispatcher.health.check_health import could_start, free_slots
from trace_platform.dispatcher.health.metrics import Metrics, Sample
from trace_platform.dispatcher.pressure.list_queues import job_queues
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview, registry
from trace_platform.state.overview import AliveWorker, Outage, SourceLag, SourceSilence
from trace_platform.state.registry import DatasetAge
from trace_platform.wire.control import JobQueue


async def measure(state: Database, org_id: UUID, metrics: Metrics) -> int:
    """The gauges as things stand now. Finds no work: the next measurement is due after a pause."""
    async with overview.snapshot(state) as tx:
        queues = list((await job_queues(tx, org_id)).values())
        workers = await overview.workers(tx)
        lags = await overview.source_lags(tx, org_id)
        silences = await overview.source_silences(tx, org_id)
        owed = await overview.outbox(tx)
        ages = await registry.ages(tx, org_id)
        outages = await overview.outages(tx, org_id)
    metrics.measured(
        [
            *_queue_samples(queues),
            *_job_samples(queues),
            *_worker_samples(workers),
            *(Sample("trace_source_lag_seconds", row.lag_s, _job(row)) for row in lags),
            *_silence_samples(silences),
            *_age_samples(ages),
            *(Sample("trace_outage_seconds", row.lasts_s, _job(row)) for row in outages),
            Sample("trace_outbox_rows", owed.rows, {}),
            Sample("trace_outbox_lag_seconds", owed.lag_s, {}),
        ]
    )
    return 0


def _queue_samples(queues: list[JobQueue]) -> Iterator[Sample]:
    for (runtime, dag, job), same in _grouped(queues, "runtime", "dag_name", "job_name"):
        of_queue = {"runtime": runtime, "dag": dag, "job": job}
        oldest = max(queue.oldest_age_s or 0.0 for queue in same)
        yield Sample("trace_queue_depth", sum(q.ready for q in same), of_queue)
        yield Sample("trace_queue_oldest_age_seconds", oldest, of_queue)
        waiting = sum(queue.ready for queue in same if could_start(queue))
        yield Sample("trace_queue_waiting_for_worker", waiting, of_queue)
        yield Sample("trace_queue_deferred", sum(q.deferred for q in same), of_queue)


def _job_samples(queues: list[JobQueue]) -> Iterator[Sample]:
    for (dag, job), same in _grouped(queues, "dag_name", "job_name"):
        of_job = {"dag": dag, "job": job}
        yield Sample("trace_tasks_running", sum(q.running for q in same), of_job)
        yield Sample("trace_tasks_retrying", sum(q.retrying for q in same), of_job)
        yield Sample("trace_backpressure_level", max(map(_level, same)), of_job)
        yield from _hold_samples(same[0], of_job)


def _grouped(
    queues: list[JobQueue], *names: str
) -> Iterable[tuple[tuple[str, ...], list[JobQueue]]]:
    """Definitions of one job that a deploy changed count together."""
    groups: dict[tuple[str, ...], list[JobQueue]] = defaultdict(list)
    for queue in queues:
        groups[tuple(getattr(queue, name) for name in names)].append(queue)
    return groups.items()


def _level(queue: JobQueue) -> int:
    return len(queue.pressure.priorities) if queue.pressure else 0


def _hold_samples(queue: JobQueue, of_job: dict[str, str]) -> Iterator[Sample]:
    causes = Counter("user" if hold.cause == "user" else "pressure" for hold in queue.holds)
    for cause in ("user", "pressure"):
        yield Sample("trace_job_holds", causes[cause], {**of_job, "cause": cause})


def _worker_samples(workers: list[AliveWorker]) -> Iterator[Sample]:
    by_runtime: dict[str, list[AliveWorker]] = defaultdict(list)
    for worker in workers:
        by_runtime[worker.runtime].append(worker)
    for runtime, alive in by_runtime.items():
        of_runtime = {"runtime": runtime}
        busy = sum(worker.running for worker in alive)
        free = free_slots(alive, runtime)
        yield Sample("trace_workers", len(alive), of_runtime)
        yield Sample("trace_worker_slots", busy, {**of_runtime, "state": "busy"})
        yield Sample("trace_worker_slots", free, {**of_runtime, "state": "free"})
        busy = sum(worker.running_sources for worker in alive)
        free = free_slots(alive, runtime, sources=True)
        yield Sample("trace_worker_source_slots", busy, {**of_runtime, "state": "busy"})
        yield Sample("trace_worker_source_slots", free, {**of_runtime, "state": "free"})


def _silence_samples(silences: list[SourceSilence]) -> Iterator[Sample]:
    """Of several tasks of one source, the one that was not heard the longest: it comes first."""
    longest: dict[tuple[str, ...], SourceSilence] = {}
    for row in silences:
        longest.setdefault((row.dag_name, row.job_name), row)
    for row in longest.values():
        yield Sample("trace_source_heartbeat_age_seconds", max(row.silent_s, 0.0), _job(row))
        if row.behind is not None:
            yield Sample("trace_source_behind", row.behind, _job(row))
        if row.heard_s is not None:
            yield Sample("trace_source_heard_age_seconds", row.heard_s, _job(row))
        yield Sample("trace_source_stuck_seconds", row.stuck_s, _job(row))


def _age_samples(ages: list[DatasetAge]) -> Iterator[Sample]:
    for row in ages:
        of_dataset = {"dataset": row.name}
        yield Sample("trace_dataset_age_seconds", row.age_s, of_dataset)
        yield Sample("trace_dataset_max_age_seconds", row.max_age_s, of_dataset)


def _job(row: SourceSilence | SourceLag | Outage) -> dict[str, str]:
    return {"dag": row.dag_name, "job": row.job_name}
