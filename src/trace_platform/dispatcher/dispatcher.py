"""What the Dispatcher's verbs need, and whom it lets in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from trace_platform.dispatcher.health.metrics import Metrics
from trace_platform.dispatcher.loops import Wake
from trace_platform.dispatcher.openlineage.pending_runs import PendingRuns
from trace_platform.dispatcher.storage.retire_superseded import Retention
from trace_platform.dispatcher.tasks.claim_task import Grants
from trace_platform.dispatcher.tasks.complete_task import Completing
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import DeadLetters


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
    # Postgres data, to drop tables that were purged and to show alerts.
    data: Database
    store: ObjectStore
    grants: Grants
    secrets: Secrets
    runtimes: Runtimes
    org_id: UUID
    retry_base_s: float
    # Set after every write that leaves something in the outbox.
    wake: Wake
    dead_letters: DeadLetters
    metrics: Metrics = field(default_factory=Metrics)
    # How long ago an attempt has to have ended before what it left is deleted.
    garbage_grace_s: float = 900.0
    # How long files stay that gave way to newer ones.
    retention: Retention = field(default_factory=Retention)
    # Whether jobs may name code that lies beside their DAG file.
    beside_dags: bool = True
    # What is to be told of attempts; None: nobody asks for it.
    runs: PendingRuns | None = None
    # Set when no more requests are taken: answers that have no end, end.
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def completing(self) -> Completing:
        return Completing(
            self.state,
            self.store,
            self.grants.bucket,
            self.retry_base_s,
            self.metrics.tasks_ended,
            self.grants.trusts,
            finished=self.runs.ended if self.runs else lambda _: None,
        )
