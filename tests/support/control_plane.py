"""A dispatcher's parts on a real database, for tests that call its verbs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from fastapi import FastAPI
from psycopg.rows import dict_row

from tests.support.lent_apps import LentApp, give_back, lend
from trace_platform.dispatcher.dispatcher import Dispatcher, Secrets
from trace_platform.dispatcher.events.publish_outbox import Publishing, publish_outbox
from trace_platform.dispatcher.loops import Wake
from trace_platform.dispatcher.sources.trigger_source import trigger_source
from trace_platform.dispatcher.tasks.claim_task import Grants, claim_task
from trace_platform.dispatcher.tasks.complete_task import complete_task
from trace_platform.dispatcher.tasks.heartbeat import heartbeat
from trace_platform.dispatcher.tasks.task_tokens import TaskTokens
from trace_platform.dispatcher.tasks.trust import trusted_by
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.domain.errors import TraceError
from trace_platform.domain.own_code import Code, Files
from trace_platform.domain.runtimes import Runtimes
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.lite.pem_signer import PemSigner
from trace_platform.drivers.lite.pg_dead_letters import PgDeadLetters
from trace_platform.drivers.lite.pgqueue import PgQueueReceiver, PgQueueSender
from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.queue import source_queue
from trace_platform.state import dags
from trace_platform.wire.control import TriggerRequest
from trace_platform.wire.manifest import MANIFEST_NAME, SUCCESS_NAME, Manifest, ManifestFile, seal
from trace_platform.wire.task import (
    Claimed,
    ClaimRequest,
    CompleteRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    NotClaimed,
    OutputCommit,
)

DAG = """
name: chain
defaults: { max_attempts: 3, heartbeat_timeout_seconds: 30 }
jobs:
  - name: request
    activation: source
    source: { kind: manual }
    outputs: [ranges]
  - name: split
    activation: reactive
    runtime: ecs_platform
    operator: range_splitter
    inputs: [{ from: { job: request, output: ranges } }]
    outputs: [chunks]
    config: { chunk_blocks: 10 }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{ from: { job: split, output: chunks } }]
    outputs: [blocks, transactions, logs]
    config: { chain_id: 31337, rpc_pool: demo }
publish:
  blocks: { from: { job: ingest, output: blocks } }
  transactions: { from: { job: ingest, output: transactions } }
  logs: { from: { job: ingest, output: logs } }
"""

WORKER_TOKEN = "worker-secret"
HOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SECRETS = Secrets(
    worker_tokens=lambda: (WORKER_TOKEN,),
    service_token="service-secret",
    user_token="user",
    named={"hook_key": HOOK_SECRET}.get,
)


_BLOCKED = """
SELECT 1 FROM pg_locks l LEFT JOIN pg_database d ON d.oid = l.database
 WHERE NOT l.granted AND (d.datname = current_database() OR l.database IS NULL OR l.database = 0)
"""


@dataclass
class ControlPlane:
    dispatcher: Dispatcher
    queue: PgQueueSender
    received: PgQueueReceiver
    owner_dsn: str
    _lent: LentApp | None = None

    @classmethod
    async def open(cls, dsns: Any, folder: Path, data_dsn: str = "") -> ControlPlane:
        """Without a DSN, whoever asks Postgres data gets no answer."""
        state = Database(dsns.dispatcher)
        await state.open()
        data = Database(data_dsn)
        if data_dsn:
            await data.open()
        async with state.transaction() as tx:
            org_id = await dags.default_org(tx)
        dispatcher = Dispatcher(
            state=state,
            data=data,
            store=LocalStore(str(folder)),
            grants=Grants(
                TaskTokens(PemSigner(folder / "keys")),
                "trace-data",
                "trace-scratch",
                trusts=trusted_by(Runtimes.default()),
            ),
            secrets=SECRETS,
            runtimes=Runtimes.default(),
            org_id=org_id,
            retry_base_s=1.0,
            wake=Wake(),
            dead_letters=PgDeadLetters(state),
        )
        return cls(dispatcher, PgQueueSender(state), PgQueueReceiver(dsns.queue), dsns.owner)

    @property
    def app(self) -> FastAPI:
        """Its HTTP, until it is closed."""
        if self._lent is None:
            self._lent = lend(self.dispatcher)
        return self._lent.app

    async def close(self) -> None:
        if self._lent is not None:
            give_back(self._lent)
        self.received.close()
        await self.dispatcher.data.close()
        await self.dispatcher.state.close()

    def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """What the database says, asked past the code under test."""
        with psycopg.connect(self.owner_dsn, row_factory=dict_row) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    async def blocked(self, call: asyncio.Task[Any]) -> None:
        """Until the call waits for a lock in this database, or is done without."""
        deadline = time.monotonic() + 20
        while not call.done() and not self.sql(_BLOCKED):
            assert time.monotonic() < deadline, "neither blocked nor done"
            await asyncio.wait([call], timeout=0.01)

    async def deploy(self, yaml: str = DAG, code: Files | None = None) -> None:
        given = Code(code or {})
        await deploy_dag(
            self.dispatcher.state, self.dispatcher.org_id, yaml, "dag.yaml", code=given
        )

    async def trigger(self, start: int, end: int, dag: str = "chain", job: str = "request") -> int:
        request = TriggerRequest(start=start, end=end)
        return await trigger_source(
            self.dispatcher.state, self.dispatcher.org_id, dag, job, request
        )

    async def settle(self) -> None:
        """Publish until the outbox is empty."""
        while await publish_outbox(self.publishing()):
            pass

    def publishing(self, queue: Any = None) -> Publishing:
        return Publishing(self.dispatcher.state, queue or self.queue, self.dispatcher.runtimes)

    async def beat(self, claimed: Claimed, **fields: Any) -> HeartbeatResponse:
        request = HeartbeatRequest(**(fence_fields(claimed) | fields))
        (answer,) = await heartbeat(self.dispatcher.state, [request])
        if isinstance(answer, TraceError):
            raise answer
        return answer

    def wake_ups(self) -> list[UUID]:
        queues = ("ecs_platform", source_queue("ecs_platform"))
        messages = [m for name in queues for m in self.received.receive(name, 1000, 30)]
        self.received.ack([m.receipt for m in messages])
        return [UUID(m.body["task_id"]) for m in messages]

    async def claim(self, task_id: UUID, worker: str = "worker-1") -> Claimed | NotClaimed:
        request = ClaimRequest(task_id=task_id, worker_id=worker)
        return await claim_task(self.dispatcher.state, self.dispatcher.grants, request)

    async def claimed(self, task_id: UUID, worker: str = "worker-1") -> Claimed:
        answer = await self.claim(task_id, worker)
        assert isinstance(answer, Claimed), answer
        return answer

    async def complete(self, claimed: Claimed, **fields: Any) -> None:
        request = CompleteRequest(**(fence_fields(claimed) | {"status": "Completed"} | fields))
        await complete_task(self.dispatcher.completing, request)

    async def queued_split(self, start: int = 0, end: int = 29, yaml: str = DAG) -> UUID:
        """The one task that a trigger creates, announced."""
        await self.deploy(yaml)
        await self.trigger(start, end)
        return await self.announced()

    async def queued_ingest(self, start: int = 0, end: int = 9, yaml: str = DAG) -> UUID:
        """An ingest task of this range, the splitter's part played by hand."""
        split = await self.claimed(await self.queued_split(start, end, yaml))
        await self.complete(split, events=[range_event(split, start, end)])
        return await self.announced()

    async def announced(self) -> UUID:
        """The one task that is due. A dispatcher's own loops may be at it: then it comes a little
        after we have nothing left to publish."""
        async with asyncio.timeout(60):
            while True:
                await self.settle()
                if found := self.wake_ups():
                    (task_id,) = found
                    return task_id
                await asyncio.sleep(0.01)


def fence_fields(claimed: Claimed) -> dict[str, Any]:
    return {
        "task_id": claimed.task.task_id,
        "attempt": claimed.attempt,
        "lease_token": claimed.lease_token,
    }


def range_event(claimed: Claimed, start: int, end: int, output: int = 0) -> dict[str, Any]:
    target = claimed.task.outputs[output]
    return {
        "dataset_uuid": target.dataset_uuid,
        "dataset_version": target.dataset_version,
        "partition_key": f"{start}-{end}",
        "start": start,
        "end": end,
    }


def stage(
    store: LocalStore, claimed: Claimed, output: int, start: int, end: int, body: bytes = b"rows"
) -> OutputCommit:
    """Write one sealed output of this attempt, as an operator would."""
    target = claimed.task.outputs[output]
    name = f"{target.name}_{start}_{end}.parquet"
    store.put(target.prefix + name, body)
    manifest = Manifest(
        partition_key=f"{start}-{end}",
        start=start,
        end=end,
        files=[ManifestFile(name=name, bytes=len(body), rows=5, sha256="0" * 64)],
        rows=5,
        bytes=len(body),
        schema_hash="1" * 64,
    ).to_bytes()
    store.put(target.prefix + MANIFEST_NAME, manifest)
    store.put(target.prefix + SUCCESS_NAME, seal(manifest))
    return OutputCommit(
        output_index=output,
        dataset_uuid=target.dataset_uuid,
        dataset_version=target.dataset_version,
        location=target.prefix,
        partition_key=f"{start}-{end}",
        start=start,
        end=end,
        row_count=5,
    )
