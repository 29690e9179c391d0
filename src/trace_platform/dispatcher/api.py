"""The Dispatcher's HTTP face: what the verbs need, and the routes by who may call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from fastapi import FastAPI

from trace_platform.dispatcher import (
    alert_api,
    backfill_api,
    dag_api,
    dataset_api,
    hook_api,
    invalidation_api,
    service_api,
    source_api,
    task_api,
    user_api,
    worker_api,
)
from trace_platform.dispatcher.claim_task import Grants
from trace_platform.dispatcher.complete_task import Completing
from trace_platform.dispatcher.loops import Wake
from trace_platform.dispatcher.metrics import Metrics
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.wire import problem


@dataclass(frozen=True, slots=True)
class Secrets:
    """Who may call what: workers, services, users. Workers have two while theirs is rotated."""

    worker_tokens: Callable[[], Sequence[str]] = field(repr=False)
    service_token: str = field(repr=False)
    user_token: str = field(repr=False)
    # The value behind a name that a DAG's file gives; None when it is not set.
    named: Callable[[str], str | None] = field(default=lambda _: None, repr=False)


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Everything the verbs need, passed once."""

    state: Database
    store: ObjectStore
    grants: Grants
    secrets: Secrets
    runtimes: Runtimes
    org_id: UUID
    retry_base_s: float
    # Set after every write that leaves something in the outbox.
    wake: Wake
    metrics: Metrics = field(default_factory=Metrics)
    # Postgres data, to drop tables that were purged and to show alerts.
    data: Database | None = None
    # How long ago an attempt has to have ended before what it left is deleted.
    garbage_grace_s: float = 900.0

    @property
    def completing(self) -> Completing:
        return Completing(
            self.state,
            self.store,
            self.grants.bucket,
            self.retry_base_s,
            self.metrics.tasks_ended,
        )


def create_app(me: Dispatcher) -> FastAPI:
    app = FastAPI(title="Trace Dispatcher", docs_url=None, redoc_url=None)
    problem.install(app)
    batches = task_api.Batches(me)
    worker_api.install(app, me, batches)
    task_api.install(app, me, batches)
    dag_api.install(app, me)
    dataset_api.install(app, me)
    user_api.install(app, me)
    source_api.install(app, me)
    hook_api.install(app, me)
    invalidation_api.install(app, me)
    backfill_api.install(app, me)
    alert_api.install(app, me)
    service_api.install(app, me)
    return app
