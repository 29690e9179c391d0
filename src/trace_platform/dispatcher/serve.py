"""The dispatcher process: the API and its loops in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from trace_platform.dispatcher.api import Dispatcher, Secrets, create_app
from trace_platform.dispatcher.claim_task import Grants
from trace_platform.dispatcher.loops import repeat
from trace_platform.dispatcher.publish_outbox import Publishing, publish_outbox
from trace_platform.dispatcher.reap_leases import reap_leases
from trace_platform.dispatcher.requeue_failed import requeue_failed
from trace_platform.dispatcher.task_tokens import TaskTokens
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.https import Listen, serve_https
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import QueueSender
from trace_platform.drivers.token_signer import TokenSigner
from trace_platform.state import dags

log = structlog.get_logger()


async def serve(
    listen: Listen,
    state: Database,
    queue: QueueSender,
    store: ObjectStore,
    signer: TokenSigner,
    secrets: Secrets,
    runtimes: Runtimes,
    bucket: str,
    scratch_bucket: str,
    loop_interval_s: float,
    retry_base_s: float,
    on_ready: Callable[[], None],
) -> None:
    """Run until SIGTERM or SIGINT."""
    await state.open()
    async with state.transaction() as tx:
        org_id = await dags.default_org(tx)
    me = Dispatcher(
        state=state,
        store=store,
        grants=Grants(TaskTokens(signer), bucket, scratch_bucket),
        secrets=secrets,
        runtimes=runtimes,
        org_id=org_id,
        retry_base_s=retry_base_s,
        wake=asyncio.Event(),
    )
    app = create_app(me)
    try:
        async with running_loops(me, queue, loop_interval_s):
            await serve_https(app, listen, on_ready)
    finally:
        await state.close()


@asynccontextmanager
async def running_loops(
    me: Dispatcher, queue: QueueSender, interval_s: float
) -> AsyncIterator[None]:
    publishing = Publishing(me.state, queue, me.runtimes)

    async def publish() -> int:
        return await publish_outbox(publishing)

    async def reap() -> int:
        reaped = await reap_leases(me.state)
        for attempt in reaped:
            log.warning("lease_expired", **{k: str(v) for k, v in attempt.items()})
        if reaped:
            me.wake.set()
        return len(reaped)

    async def requeue() -> int:
        queued = await requeue_failed(me.state)
        if queued:
            me.wake.set()
        return len(queued)

    loops = [
        asyncio.create_task(repeat("publish_outbox", publish, interval_s, me.wake)),
        asyncio.create_task(repeat("reap_leases", reap, interval_s)),
        asyncio.create_task(repeat("requeue_failed", requeue, interval_s)),
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*loops)
