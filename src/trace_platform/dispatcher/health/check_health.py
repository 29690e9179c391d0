"""The alerts that every instance should have, as rules over what is alive now."""

from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from trace_platform.data.alerts_read import StandingAlert
from trace_platform.dispatcher.datasets.wrong_datasets import wrong_datasets
from trace_platform.dispatcher.health.standing_alerts import standing_alerts
from trace_platform.dispatcher.openlineage.pending_runs import PendingRuns
from trace_platform.dispatcher.pressure.list_queues import job_queues
from trace_platform.dispatcher.sources.list_sources import state_of, stuck_s, stuck_words
from trace_platform.domain.cron import overdue_at
from trace_platform.domain.errors import Unavailable
from trace_platform.domain.figures import count, duration
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import overview, registry, sources
from trace_platform.state.overview import AliveWorker, LockWait, Outage, RecentEnds, SourceSilence
from trace_platform.state.registry import DatasetAge
from trace_platform.state.sources import ListedSource
from trace_platform.wire.control import Health, HealthRule, JobQueue

MAX_QUEUE_DEPTH = 1_000
MAX_FAILURE_RATE = 0.05
# Among fewer, one failure would be an alarm.
MIN_ENDED = 20
FAILURES_WITHIN_S = 900.0
MAX_SILENCE_S = 120.0
# What a tick may be late.
TICK_GRACE_S = 60.0
# A worker looks at its queue twice a second.
MAX_POLL_SILENCE_S = 30.0
# What a claim, a route or a commit may wait for its turn.
MAX_LOCK_WAIT_S = 10.0
# What tasks may wait for something that is away before somebody should know.
MAX_OUTAGE_S = 300.0


async def refuse_stuck(state: Database) -> None:
    """Raise Unavailable when the database does not answer, or does not let the dispatcher work."""
    async with state.transaction() as tx:
        rule = _database_locks(await overview.longest_lock_wait(tx))
    if rule.firing:
        raise Unavailable(rule.text, hint="trace health has more")


async def check_health(
    state: Database,
    data: Database,
    runtimes: Runtimes,
    org_id: UUID,
    runs: PendingRuns | None = None,
) -> Health:
    """`runs`: what is to be told to whoever collects lineage, where somebody does."""
    alerts = await _standing(data)
    async with overview.snapshot(state) as tx:
        queues = list((await job_queues(tx, org_id)).values())
        ends = await overview.recent_ends(tx, org_id, FAILURES_WITHIN_S)
        silences = await overview.source_silences(tx, org_id)
        listed = await sources.listing(tx, org_id)
        workers = await overview.workers(tx)
        ages = await registry.ages(tx, org_id)
        wrong = await wrong_datasets(tx, org_id, alerts or [])
        waiting = await overview.longest_lock_wait(tx)
        outages = await overview.outages(tx, org_id)
    rules = [
        _queue_depth(queues),
        _failure_rate(ends),
        _source_heartbeat(silences, listed),
        _workers_at_capacity(queues, workers, runtimes),
        _dataset_freshness(ages, list(wrong)),
        _database_locks(waiting),
        _outages(outages),
        _alerts(alerts),
        *([_lineage_events(runs)] if runs is not None else []),
    ]
    return Health(firing=any(rule.firing for rule in rules), rules=rules)


async def _standing(data: Database) -> list[StandingAlert] | None:
    """None: Postgres data, which has them, does not answer."""
    try:
        return await standing_alerts(data)
    except Unavailable:
        return None


def _queue_depth(queues: list[JobQueue]) -> HealthRule:
    depths: dict[str, int] = defaultdict(int)
    for queue in queues:
        depths[queue.runtime] += queue.ready
    runtime, depth = max(depths.items(), key=lambda item: item[1], default=("", 0))
    return HealthRule(
        code="queue_depth",
        firing=depth > MAX_QUEUE_DEPTH,
        value=depth,
        limit=MAX_QUEUE_DEPTH,
        text=f"{count(depth, 'task')} ready for {runtime}" if depth else "nothing waits",
    )


def _lineage_events(runs: PendingRuns) -> HealthRule:
    """Of this dispatcher since it started."""
    lost = runs.dropped + runs.sink.refused
    told = f"{count(lost, 'event')} of runs dropped or refused" if lost else "no event is lost"
    return HealthRule(
        code="lineage_events",
        firing=runs.dropped_within(FAILURES_WITHIN_S),
        value=lost,
        limit=0,
        text=f"{told}, {runs.waiting:,} to be told",
    )


def _failure_rate(ends: RecentEnds) -> HealthRule:
    rate = ends.failed / ends.ended if ends.ended else 0.0
    enough = ends.ended >= MIN_ENDED
    ended = count(ends.ended, "task")
    text = f"{ends.failed:,} of {ended} failed that ended within 15 minutes"
    return HealthRule(
        code="failure_rate",
        firing=enough and rate > MAX_FAILURE_RATE,
        value=rate,
        limit=MAX_FAILURE_RATE,
        text=text if enough else f"{text}: too few to judge",
    )


def _source_heartbeat(silences: list[SourceSilence], listed: list[ListedSource]) -> HealthRule:
    """A source that runs is silent, one that should run is dead, or a schedule was not kept."""
    silent = [(max(row.silent_s, 0.0), _name(row)) for row in silences]
    wrong = [
        (age_s, f"{name} was heard {duration(age_s)} ago")
        for age_s, name in silent
        if age_s > MAX_SILENCE_S
    ]
    wrong += [trouble for row in listed if (trouble := _dead(row) or _stuck(row) or _late(row))]
    longest = max(silent, default=None)
    well = f"{longest[1]} was heard {duration(longest[0])} ago" if longest else "no source runs"
    return HealthRule(
        code="source_heartbeat",
        firing=bool(wrong),
        value=max((age_s for age_s, _ in [*wrong, *silent]), default=0.0),
        limit=MAX_SILENCE_S,
        text="; ".join(said for _, said in sorted(wrong, reverse=True)) or well,
    )


def _dead(row: ListedSource) -> tuple[float, str] | None:
    if row.kind != "always_on" or state_of(row) != "Dead":
        return None
    age_s = max(row.ended_s or 0.0, 0.0)
    why = row.error_code or "it ended"
    return age_s, f"{_name(row)} is dead for {duration(age_s)} ({why})"


def _stuck(row: ListedSource) -> tuple[float, str] | None:
    if row.kind != "always_on" or state_of(row) != "Stuck":
        return None
    return stuck_s(row), f"{_name(row)} {stuck_words(row)}: {(row.progress or {})['stuck']}"


def _late(row: ListedSource) -> tuple[float, str] | None:
    """Two ticks are missing, and somebody would have told them."""
    if row.kind != "cron" or row.on_hold or row.last_tick is None:
        return None
    source = row.source
    due = overdue_at(source["schedule"], source["timezone"], row.last_tick, TICK_GRACE_S)
    if due is None or row.now <= due:
        return None
    age_s = (row.now - row.last_tick).total_seconds()
    return age_s, f"{_name(row)} ticked {duration(age_s)} ago: does the scheduler run?"


def _name(row: SourceSilence | ListedSource | Outage) -> str:
    return f"{row.dag_name}.{row.job_name}"


def _workers_at_capacity(
    queues: list[JobQueue], workers: list[AliveWorker], runtimes: Runtimes
) -> HealthRule:
    """What is on hold or at its own limit waits for something else than a worker."""
    waiting: dict[tuple[str, bool], int] = defaultdict(int)
    for queue in queues:
        if could_start(queue):
            waiting[queue.runtime, queue.is_source] += queue.ready
    polled = {runtime.name for runtime in runtimes if runtime.kind == "queue"}
    full = {
        (runtime, sources): n
        for (runtime, sources), n in waiting.items()
        if n and runtime in polled and not free_slots(workers, runtime, sources=sources)
    }
    return HealthRule(
        code="workers_at_capacity",
        firing=bool(full),
        value=sum(full.values()),
        limit=0,
        text="; ".join(_full(*which, n, workers) for which, n in sorted(full.items()))
        or "no task waits for a worker",
    )


def _dataset_freshness(ages: list[DatasetAge], wrong: list[str]) -> HealthRule:
    """The one that is the most over its max_age speaks for all; what is wrong is not fresh."""
    worst = max(ages, key=lambda row: row.age_s / row.max_age_s, default=None)
    if worst is None:
        text, age_s, limit_s = "no published dataset has a max_age", 0.0, 0.0
    else:
        age_s, limit_s = worst.age_s, worst.max_age_s
        text = f"{worst.name} changed {duration(age_s)} ago, and may be {duration(limit_s)} old"
    over = sum(row.age_s > row.max_age_s for row in ages)
    more = f"; {over - 1:,} more are too old" if over > 1 else ""
    known = f"known to be wrong: {', '.join(wrong)}; " if wrong else ""
    return HealthRule(
        code="dataset_freshness",
        firing=over > 0 or bool(wrong),
        value=age_s,
        limit=limit_s,
        text=known + text + more,
    )


def _database_locks(waiting: LockWait | None) -> HealthRule:
    """Claims, routes and commits that get no turn: whatever else looks well, nothing moves."""
    waits_s = waiting.waits_s if waiting else 0.0
    text = "no statement waits for a lock for long"
    if waiting and waits_s > MAX_LOCK_WAIT_S:
        holders = ", ".join(map(str, waiting.held_by)) or "somebody"
        text = f"a statement waits {duration(waits_s)} for a lock of database session {holders}"
    return HealthRule(
        code="database_locks",
        firing=waits_s > MAX_LOCK_WAIT_S,
        value=waits_s,
        limit=MAX_LOCK_WAIT_S,
        text=text,
    )


def _outages(outages: list[Outage]) -> HealthRule:
    """The tasks that have waited the longest speak for all."""
    longest = outages[0] if outages else None
    text = "no task waits for something that is away"
    if longest:
        said = f" ([{longest.error_code}] {longest.error_message})"
        text = (
            f"{count(longest.tasks, 'task')} of {_name(longest)} found something away for"
            f" {duration(longest.lasts_s)}{said if longest.error_code else ''}"
        )
    lasts_s = longest.lasts_s if longest else 0.0
    return HealthRule(
        code="outages",
        firing=lasts_s > MAX_OUTAGE_S,
        value=lasts_s,
        limit=MAX_OUTAGE_S,
        text=text,
    )


def _alerts(alerts: list[StandingAlert] | None) -> HealthRule:
    """The newest speaks for all."""
    if alerts is None:
        text = "Postgres data does not answer: which critical alerts stand is not known"
    elif alerts:
        text = _standing_words(alerts[0])
        text += f"; {len(alerts) - 1:,} more stand" if len(alerts) > 1 else ""
    else:
        text = "no critical alert stands"
    return HealthRule(
        code="alerts",
        firing=alerts is None or bool(alerts),
        value=len(alerts or ()),
        limit=0,
        text=text,
    )


def _standing_words(alert: StandingAlert) -> str:
    by = ".".join(part for part in (alert.dag, alert.job) if part)
    return (
        f"{alert.code}{f' of {by}' if by else ''}, {duration(alert.age_s)} ago:"
        f" {alert.message} (until it is over, or trace alerts ack {alert.alert_id})"
    )


def could_start(queue: JobQueue) -> bool:
    """Whether its tasks would run if there were workers."""
    held = any(queue.priority in hold.priorities for hold in queue.holds)
    full = queue.max_concurrency is not None and queue.running >= queue.max_concurrency
    return not held and not full


def free_slots(workers: list[AliveWorker], runtime: str, *, sources: bool = False) -> int:
    """Of those that get at their queue."""
    able = [each for each in workers if each.runtime == runtime and not cannot_poll(each)]
    if sources:
        return sum(max(each.source_slots - each.running_sources, 0) for each in able)
    return sum(max(each.slots - each.running, 0) for each in able)


def cannot_poll(worker: AliveWorker) -> bool:
    """Whether it is alive and hears of no task: its queue refuses it, or does not answer."""
    return worker.polled_s > MAX_POLL_SILENCE_S


def _full(runtime: str, sources: bool, waiting: int, workers: list[AliveWorker]) -> str:
    own = [worker for worker in workers if worker.runtime == runtime]
    alive, deaf = len(own), sum(map(cannot_poll, own))
    what = count(waiting, "source" if sources else "task")
    wait = f"{what} of {runtime} wait{'s' if waiting == 1 else ''}"
    if not alive:
        return f"{wait}, and no worker is alive"
    if deaf:
        return f"{wait}, and {deaf} of {count(alive, 'worker')} cannot poll: see trace logs worker"
    if sources:
        return f"{wait}, and all source slots are taken: raise [worker] source_slots"
    return f"{wait}, and {'its worker is' if alive == 1 else f'all {alive} workers are'} full"
