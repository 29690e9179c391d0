"""The Dispatcher's HTTP face. Each route authenticates, calls one verb, and wakes the publisher."""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass, field
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, FastAPI, Header, Query, Request

from trace_platform.dispatcher.cancel_task import cancel_task
from trace_platform.dispatcher.claim_task import claim_task
from trace_platform.dispatcher.complete_task import complete_task
from trace_platform.dispatcher.deploy_dag import deploy_dag
from trace_platform.dispatcher.describe import dag_status, fetch_task, list_tasks, resolve_datasets
from trace_platform.dispatcher.heartbeat import heartbeat
from trace_platform.dispatcher.record_events import record_events
from trace_platform.dispatcher.retry_task import retry_task
from trace_platform.dispatcher.task_tokens import TaskTokens
from trace_platform.dispatcher.trigger_source import trigger_source
from trace_platform.domain.errors import SetupError, Unauthenticated
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.database import Database
from trace_platform.wire import control, problem, task
from trace_platform.wire.query import ResolveResponse

Token = Annotated[str, Header(alias="X-Trace-Task-Capability")]


@dataclass(frozen=True, slots=True)
class Secrets:
    """Who may call what: workers, services, users."""

    worker_token: str = field(repr=False)
    service_token: str = field(repr=False)
    user_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Everything the verbs need, passed once."""

    state: Database
    store: ObjectStore
    tokens: TaskTokens
    secrets: Secrets
    org_id: UUID
    bucket: str
    retry_base_s: float
    # Set after every write that leaves something in the outbox.
    wake: asyncio.Event


def create_app(me: Dispatcher) -> FastAPI:
    app = FastAPI(title="Trace Dispatcher", docs_url=None, redoc_url=None)
    problem.install(app)
    _worker_routes(app, me)
    _task_routes(app, me)
    _user_routes(app, me)
    _service_routes(app, me)
    return app


def _require(expected: str, header: str) -> Any:
    """A dependency that lets a caller in who holds the secret."""
    if not expected:
        raise SetupError(f"the secret behind {header} is empty")

    def check(request: Request) -> None:
        given = request.headers.get(header, "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), expected.encode()):
            raise Unauthenticated(f"{header} is missing or wrong")

    return Depends(check)


def _worker_routes(app: FastAPI, me: Dispatcher) -> None:
    worker = _require(me.secrets.worker_token, "X-Trace-Worker-Token")

    @app.post("/internal/task-claim", dependencies=[worker], response_model=task.ClaimResponse)
    async def claim(body: task.ClaimRequest) -> task.Claimed | task.NotClaimed:
        return await claim_task(me.state, me.tokens, me.bucket, body)

    @app.get("/internal/task-fetch", dependencies=[worker])
    async def fetch(task_id: UUID) -> control.TaskStatus:
        return await fetch_task(me.state, task_id)

    @app.get("/internal/jwks/task")
    async def jwks() -> dict[str, Any]:
        return me.tokens.jwks


def _task_routes(app: FastAPI, me: Dispatcher) -> None:
    @app.post("/v1/task/heartbeat")
    async def beat(body: task.HeartbeatRequest, token: Token) -> task.HeartbeatResponse:
        me.tokens.check(token, body.fence)
        return await heartbeat(me.state, body)

    @app.post("/v1/task/events")
    async def emit(body: task.EventsRequest, token: Token) -> task.EventsResponse:
        me.tokens.check(token, body.fence)
        accepted = await record_events(me.state, body)
        me.wake.set()
        return task.EventsResponse(accepted=accepted)

    @app.post("/v1/task/complete")
    async def complete(body: task.CompleteRequest, token: Token) -> task.CompleteResponse:
        me.tokens.check(token, body.fence)
        response = await complete_task(me.state, me.store, body, me.retry_base_s)
        me.wake.set()
        return response


def _user_routes(app: FastAPI, me: Dispatcher) -> None:
    user = _require(me.secrets.user_token, "Authorization")

    @app.post("/v1/dags", dependencies=[user])
    async def deploy(body: control.DeployRequest) -> control.DeployResponse:
        return await deploy_dag(me.state, me.org_id, body.yaml, body.file)

    @app.get("/v1/dags/{dag_name}", dependencies=[user])
    async def show(dag_name: str) -> control.DagStatus:
        return await dag_status(me.state, me.org_id, dag_name)

    @app.post("/v1/sources/{dag_name}/{job_name}/trigger", dependencies=[user])
    async def trigger(
        dag_name: str, job_name: str, body: control.TriggerRequest
    ) -> control.TriggerResponse:
        accepted = await trigger_source(me.state, me.org_id, dag_name, job_name, body)
        me.wake.set()
        return control.TriggerResponse(accepted=accepted)

    @app.get("/v1/tasks", dependencies=[user])
    async def tasks(
        dag_name: str | None = None,
        status: control.Status | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> control.TaskList:
        return await list_tasks(me.state, me.org_id, dag_name, status, limit)

    @app.post("/v1/tasks/{task_id}/cancel", dependencies=[user])
    async def cancel(task_id: UUID) -> control.TaskAction:
        return control.TaskAction(status=await cancel_task(me.state, me.org_id, task_id))

    @app.post("/v1/tasks/{task_id}/retry", dependencies=[user])
    async def retry(task_id: UUID) -> control.TaskAction:
        await retry_task(me.state, me.org_id, task_id)
        me.wake.set()
        return control.TaskAction(status="Queued")


def _service_routes(app: FastAPI, me: Dispatcher) -> None:
    service = _require(me.secrets.service_token, "X-Trace-Service-Token")

    @app.get("/internal/datasets", dependencies=[service])
    async def datasets() -> ResolveResponse:
        return await resolve_datasets(me.state, me.org_id)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        async with me.state.transaction() as tx:
            await tx.execute("SELECT 1")
        return {"status": "ok"}
