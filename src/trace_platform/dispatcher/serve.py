"""The dispatcher process: the API and its loops in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from trace_platform.dispatcher.advance_backfills import advance_backfills
from trace_platform.dispatcher.advance_deploys import advance_deploys
from trace_platform.dispatcher.api import Dispatcher, Secrets, create_app
from trace_platform.dispatcher.claim_task import Grants
from trace_platform.dispatcher.contact import Contact
from trace_platform.dispatcher.expire_correlations import expire_correlations
from trace_platform.dispatcher.invoke_task import Calls, Invoking
from trace_platform.dispatcher.loops import Wake, repeat
from trace_platform.dispatcher.measure import measure
from trace_platform.dispatcher.metrics import Metrics
from trace_platform.dispatcher.process_invalidations import close_invalidations
from trace_platform.dispatcher.prune_history import prune_history
from trace_platform.dispatcher.publish_outbox import Publishing, publish_outbox
from trace_platform.dispatcher.reap_leases import reap_leases
from trace_platform.dispatcher.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.relieve_pressure import relieve_pressure
from trace_platform.dispatcher.requeue_failed import requeue_failed
from trace_platform.dispatcher.route_invalidations import route_invalidations
from trace_platform.dispatcher.run_direct import Direct, run_direct
from trace_platform.dispatcher.task_tokens import TaskTokens
from trace_platform.dispatcher.watch_sources import watch_sources
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.https import Listen, serve_https
from trace_platform.drivers.invoker import Invoker
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import QueueSender
from trace_platform.drivers.token_signer import TokenSigner
from trace_platform.state import dags

log = structlog.get_logger()

RECONCILE_EVERY_S = 300.0
PRUNE_EVERY_S = 600.0
# What a version that gave way left open: nobody waits for it.
CLOSE_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Tuning:
    """How often, how long."""

    loop_interval_s: float = 0.5
    retry_base_s: float = 2.0
    pressure_interval_s: float = 0.5
    metrics_interval_s: float = 5.0
    history_days: float = 90.0
    # After a start or an outage, workers have this long to speak before a lease counts as lost.
    reap_grace_s: float = 15.0


async def serve(
    listen: Listen,
    state: Database,
    queue: QueueSender,
    store: ObjectStore,
    signer: TokenSigner,
    invoker: Invoker,
    secrets: Secrets,
    runtimes: Runtimes,
    bucket: str,
    scratch_bucket: str,
    tuning: Tuning,
    on_ready: Callable[[], None],
) -> None:
    """Run until SIGTERM or SIGINT."""
    await state.open()
    async with state.transaction() as tx:
        org_id = await dags.default_org(tx)
    metrics = Metrics()
    me = Dispatcher(
        state=state,
        store=store,
        grants=Grants(TaskTokens(signer), bucket, scratch_bucket, metrics.tasks_started),
        secrets=secrets,
        runtimes=runtimes,
        org_id=org_id,
        retry_base_s=tuning.retry_base_s,
        wake=Wake(),
        metrics=metrics,
    )
    app = create_app(me)
    try:
        async with running_loops(me, queue, invoker, tuning):
            await serve_https(app, listen, on_ready)
    finally:
        await invoker.close()
        await state.close()


@asynccontextmanager
async def running_loops(
    me: Dispatcher, queue: QueueSender, invoker: Invoker, tuning: Tuning
) -> AsyncIterator[None]:
    """Every verb on its timer. Those with something to say have others woken."""
    calls = Calls(Invoking(me.state, me.grants, me.completing, invoker), idle=me.wake.set)
    loops = [asyncio.create_task(loop) for loop in _loops(me, queue, calls, tuning)]
    try:
        yield
    finally:
        for loop in loops:
            loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*loops)
        await calls.close()


def _loops(
    me: Dispatcher, queue: QueueSender, calls: Calls, tuning: Tuning
) -> list[Coroutine[Any, Any, None]]:
    publishing = Publishing(me.state, queue, me.runtimes, me.wake.set)
    direct = Direct(
        me.state,
        me.completing,
        me.runtimes,
        publishing.sent,
        calls,
        me.metrics.tasks_started,
    )

    async def publish() -> int:
        return await publish_outbox(publishing)

    async def run() -> int:
        return _waking(me, await run_direct(direct))

    contact = Contact(tuning.reap_grace_s)

    async def reap() -> int:
        if not await contact.is_steady(me.state):
            return 0
        reaped = await contact.keeping(reap_leases(me.state))
        for attempt in reaped:
            log.warning("lease_expired", **{name: str(value) for name, value in attempt.items()})
        me.metrics.leases_expired(len(reaped))
        return _waking(me, len(reaped))

    async def requeue() -> int:
        queued = await requeue_failed(me.state)
        me.metrics.tasks_retried(sum(row["retried"] for row in queued))
        return _waking(me, len(queued))

    async def expire() -> int:
        return _waking(me, await expire_correlations(me.state))

    async def relieve() -> int:
        changed = _waking(me, await relieve_pressure(me.state))
        # A queue that empties makes room task by task: again at once only when it is worth it.
        return changed if changed >= 100 else 0

    async def reconcile() -> int:
        return _waking(me, await reconcile_partitions(me.state))

    async def advance() -> int:
        return _waking(me, await advance_deploys(me.state))

    async def watch() -> int:
        return _waking(me, await watch_sources(me.state, me.retry_base_s))

    async def invalidate() -> int:
        return _waking(me, await route_invalidations(me.state))

    async def close() -> int:
        return await close_invalidations(me.state)

    async def backfill() -> int:
        return _waking(me, await advance_backfills(me.state))

    async def prune() -> int:
        return await prune_history(
            me.state, tuning.history_days, store=me.store, bucket=me.grants.bucket
        )

    async def take_measure() -> int:
        return await measure(me.state, me.org_id, me.metrics)

    every_s = tuning.loop_interval_s
    return [
        repeat("publish_outbox", publish, every_s, me.wake.subscribe()),
        repeat("run_direct", run, every_s, me.wake.subscribe()),
        repeat("reap_leases", reap, every_s),
        repeat("requeue_failed", requeue, every_s),
        repeat("expire_correlations", expire, every_s),
        repeat("relieve_pressure", relieve, tuning.pressure_interval_s),
        repeat("advance_deploys", advance, every_s),
        repeat("watch_sources", watch, every_s),
        repeat("route_invalidations", invalidate, every_s),
        repeat("close_invalidations", close, CLOSE_EVERY_S),
        repeat("advance_backfills", backfill, every_s),
        repeat("reconcile_partitions", reconcile, RECONCILE_EVERY_S),
        repeat("prune_history", prune, PRUNE_EVERY_S),
        repeat("measure", take_measure, tuning.metrics_interval_s),
    ]


def _waking(me: Dispatcher, found: int) -> int:
    """What was found may have left something in the outbox."""
    if found:
        me.wake.set()
    return found
