"""Every verb that runs by itself, on its timer. All are safe in several dispatchers at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.events.expire_correlations import expire_correlations
from trace_platform.dispatcher.events.publish_outbox import Publishing, publish_outbox
from trace_platform.dispatcher.events.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.health.contact import Contact
from trace_platform.dispatcher.health.measure import measure
from trace_platform.dispatcher.health.measure_alerts import measure_alerts
from trace_platform.dispatcher.health.standing_alerts import end_repaired_alerts
from trace_platform.dispatcher.loops import repeat
from trace_platform.dispatcher.openlineage.describe_runs import KnownLineage, Place
from trace_platform.dispatcher.openlineage.pending_runs import PendingRuns
from trace_platform.dispatcher.openlineage.tell_runs import tell_runs
from trace_platform.dispatcher.pressure.relieve_pressure import relieve_pressure
from trace_platform.dispatcher.redo.advance_backfills import advance_backfills
from trace_platform.dispatcher.redo.process_invalidations import close_invalidations
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.dispatcher.sources.watch_sources import watch_sources
from trace_platform.dispatcher.storage.collect_garbage import Collecting, collect_garbage
from trace_platform.dispatcher.storage.merge_folds import merge_folds
from trace_platform.dispatcher.storage.prune_history import Keep, prune
from trace_platform.dispatcher.storage.purge_generation import finish_purges
from trace_platform.dispatcher.storage.retire_superseded import Retention, retire_superseded
from trace_platform.dispatcher.tasks.invoke_task import Calls, Invoking
from trace_platform.dispatcher.tasks.reap_leases import reap_leases
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.tasks.run_direct import Direct, run_direct
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.drivers.invoker import Invoker
from trace_platform.drivers.queue import QueueSender

log = structlog.get_logger()

RECONCILE_EVERY_S = 300.0
PRUNE_EVERY_S = 600.0
# What a version that gave way left open: nobody waits for it.
CLOSE_EVERY_S = 5.0
MERGE_EVERY_S = 30.0
TELL_EVERY_S = 1.0

Verb = Callable[[], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Tuning:
    """How often, how long."""

    loop_interval_s: float = 0.5
    retry_base_s: float = 2.0
    pressure_interval_s: float = 0.5
    metrics_interval_s: float = 5.0
    history_days: float = 90.0
    alert_days: float = 90.0
    message_days: float = 14.0
    # After a start or an outage, workers have this long to speak before a lease counts as lost.
    reap_grace_s: float = 15.0
    # How often a piece of the object store is looked through for what nobody committed.
    garbage_interval_s: float = 300.0
    superseded_days: float = 30.0
    superseded_versions: int = 100

    @property
    def keep(self) -> Keep:
        return Keep(self.history_days, self.alert_days, self.message_days)

    @property
    def retention(self) -> Retention:
        return Retention(self.superseded_days, self.superseded_versions)


@asynccontextmanager
async def running_loops(
    dispatcher: Dispatcher, queue: QueueSender, invoker: Invoker, tuning: Tuning
) -> AsyncIterator[None]:
    """All of them, until the block ends."""
    calls = Calls(
        Invoking(dispatcher.state, dispatcher.grants, dispatcher.completing, invoker),
        idle=dispatcher.wake.set,
    )
    loops = [asyncio.create_task(loop) for loop in _Loops(dispatcher, queue, calls, tuning).all()]
    try:
        yield
    finally:
        for loop in loops:
            loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*loops)
        await calls.close()


class _Loops:
    def __init__(
        self, dispatcher: Dispatcher, queue: QueueSender, calls: Calls, tuning: Tuning
    ) -> None:
        self._dispatcher = dispatcher
        self._tuning = tuning
        self._contact = Contact(tuning.reap_grace_s)
        self._publishing = Publishing(
            dispatcher.state, queue, dispatcher.runtimes, dispatcher.wake.set
        )
        self._direct = Direct(
            dispatcher.state,
            dispatcher.completing,
            dispatcher.runtimes,
            self._publishing.sent,
            calls,
            dispatcher.metrics.tasks_started,
        )

    def all(self) -> list[Coroutine[Any, Any, None]]:
        dispatcher, tuning, every_s = self._dispatcher, self._tuning, self._tuning.loop_interval_s
        state = dispatcher.state
        publish = repeat("publish_outbox", self._publish, every_s, dispatcher.wake.subscribe())
        run = self._waking(lambda: run_direct(self._direct))
        loops = [
            publish,
            repeat("run_direct", run, every_s, dispatcher.wake.subscribe()),
            repeat("reap_leases", self._reap, every_s),
            repeat("requeue_failed", self._requeue, every_s),
            repeat("relieve_pressure", self._relieve, tuning.pressure_interval_s),
            self._repeat("expire_correlations", lambda: expire_correlations(state)),
            self._repeat("advance_deploys", lambda: advance_deploys(state)),
            self._repeat("watch_sources", lambda: watch_sources(state, dispatcher.retry_base_s)),
            self._repeat("route_invalidations", lambda: route_invalidations(state)),
            self._repeat("advance_backfills", lambda: advance_backfills(state)),
            repeat("close_invalidations", lambda: close_invalidations(state), CLOSE_EVERY_S),
            repeat(
                "reconcile_partitions",
                self._waking(lambda: reconcile_partitions(state)),
                RECONCILE_EVERY_S,
            ),
            repeat("merge_folds", self._waking(lambda: merge_folds(state)), MERGE_EVERY_S),
            repeat("prune_history", self._prune, PRUNE_EVERY_S),
            repeat("finish_purges", self._finish_purges, PRUNE_EVERY_S),
            repeat("collect_garbage", self._collect, tuning.garbage_interval_s),
            repeat("measure", self._measure, tuning.metrics_interval_s),
            repeat("measure_alerts", self._measure_alerts, tuning.metrics_interval_s),
        ]
        if dispatcher.runs is not None:
            loops.append(self._tell_runs(dispatcher.runs))
        return loops

    def _tell_runs(self, runs: PendingRuns) -> Coroutine[Any, Any, None]:
        dispatcher, known = self._dispatcher, KnownLineage()
        place = Place(dispatcher.org_id, dispatcher.grants.bucket, runs.namespace)
        return repeat(
            "tell_runs", lambda: tell_runs(dispatcher.state, place, runs, known), TELL_EVERY_S
        )

    def _repeat(self, name: str, verb: Verb) -> Coroutine[Any, Any, None]:
        return repeat(name, self._waking(verb), self._tuning.loop_interval_s)

    def _waking(self, verb: Verb) -> Verb:
        """What it found may have left something in the outbox."""

        async def run() -> int:
            return self._wake(await verb())

        return run

    def _wake(self, found: int) -> int:
        if found:
            self._dispatcher.wake.set()
        return found

    async def _publish(self) -> int:
        return await publish_outbox(self._publishing)

    async def _reap(self) -> int:
        if not await self._contact.is_steady(self._dispatcher.state):
            return 0
        reaped = await self._contact.keeping(reap_leases(self._dispatcher.state))
        for attempt in reaped:
            log.warning(
                "lease_expired", **{name: str(value) for name, value in asdict(attempt).items()}
            )
        self._dispatcher.metrics.leases_expired(len(reaped))
        return self._wake(len(reaped))

    async def _requeue(self) -> int:
        queued = await requeue_failed(self._dispatcher.state)
        self._dispatcher.metrics.tasks_retried(sum(task.retried for task in queued))
        return self._wake(len(queued))

    async def _relieve(self) -> int:
        changed = self._wake(await relieve_pressure(self._dispatcher.state))
        # A queue that empties makes room task by task: again at once only when it is worth it.
        return changed if changed >= 100 else 0

    async def _prune(self) -> int:
        dispatcher = self._dispatcher
        return await prune(
            dispatcher.state, dispatcher.data, dispatcher.dead_letters, self._tuning.keep
        )

    async def _finish_purges(self) -> int:
        dispatcher = self._dispatcher
        return await finish_purges(
            dispatcher.state, dispatcher.data, dispatcher.store, dispatcher.grants.bucket
        )

    async def _collect(self) -> int:
        dispatcher, tuning = self._dispatcher, self._tuning
        collecting = Collecting(
            dispatcher.state,
            dispatcher.store,
            dispatcher.grants.bucket,
            dispatcher.grants.scratch_bucket,
            dispatcher.garbage_grace_s,
        )
        deleted = await retire_superseded(collecting, dispatcher.retention)
        deleted += await collect_garbage(collecting, tuning.garbage_interval_s)
        dispatcher.metrics.garbage_deleted(deleted)
        # All that is due was found: what comes next is not urgent.
        return 0

    async def _measure(self) -> int:
        return await measure(
            self._dispatcher.state, self._dispatcher.org_id, self._dispatcher.metrics
        )

    async def _measure_alerts(self) -> int:
        dispatcher = self._dispatcher
        await end_repaired_alerts(dispatcher.state, dispatcher.data)
        return await measure_alerts(
            dispatcher.state, dispatcher.data, dispatcher.org_id, dispatcher.metrics
        )
