"""The dispatcher process: the API and its loops in one event loop."""

from __future__ import annotations

from collections.abc import Callable

from trace_platform.dispatcher.api.create_app import create_app
from trace_platform.dispatcher.dispatcher import Dispatcher, Secrets
from trace_platform.dispatcher.health.metrics import Metrics
from trace_platform.dispatcher.loops import Wake
from trace_platform.dispatcher.openlineage.pending_runs import PendingRuns
from trace_platform.dispatcher.run_loops import Tuning, running_loops
from trace_platform.dispatcher.tasks.claim_task import Grants
from trace_platform.dispatcher.tasks.task_tokens import TaskTokens
from trace_platform.dispatcher.tasks.trust import trusted_by
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.https import Listen, serve_https
from trace_platform.drivers.invoker import Invoker
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import DeadLetters, QueueSender
from trace_platform.drivers.token_signer import TokenSigner
from trace_platform.state import dags


async def serve(
    listen: Listen,
    state: Database,
    data: Database,
    queue: QueueSender,
    dead_letters: DeadLetters,
    store: ObjectStore,
    signer: TokenSigner,
    invoker: Invoker,
    secrets: Secrets,
    runtimes: Runtimes,
    bucket: str,
    scratch_bucket: str,
    tuning: Tuning,
    on_ready: Callable[[], None],
    *,
    beside_dags: bool = True,
    runs: PendingRuns | None = None,
) -> None:
    """Run until SIGTERM or SIGINT."""
    await state.open()
    await data.open()
    async with state.transaction() as tx:
        org_id = await dags.default_org(tx)
    metrics = Metrics()
    dispatcher = Dispatcher(
        state=state,
        data=data,
        store=store,
        grants=Grants(
            *(TaskTokens(signer), bucket, scratch_bucket, metrics.tasks_started),
            trusts=trusted_by(runtimes),
            began=runs.began if runs else lambda _: None,
        ),
        secrets=secrets,
        runtimes=runtimes,
        org_id=org_id,
        retry_base_s=tuning.retry_base_s,
        wake=Wake(),
        dead_letters=dead_letters,
        metrics=metrics,
        retention=tuning.retention,
        beside_dags=beside_dags,
        runs=runs,
    )
    app = create_app(dispatcher)
    try:
        async with running_loops(dispatcher, queue, invoker, tuning):
            await serve_https(app, listen, on_ready, dispatcher.stopping.set)
    finally:
        await invoker.close()
        if runs is not None:
            await runs.sink.close()
        await data.close()
        await state.close()
