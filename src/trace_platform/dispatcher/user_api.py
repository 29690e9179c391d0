"""Routes for people and their tools."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from fastapi import FastAPI, Query

from trace_platform.dispatcher.authenticate import require
from trace_platform.dispatcher.cancel_task import cancel_task
from trace_platform.dispatcher.deploy_dag import deploy_dag
from trace_platform.dispatcher.describe import dag_status, list_tasks
from trace_platform.dispatcher.emit_events import emit_events
from trace_platform.dispatcher.retry_task import retry_task
from trace_platform.dispatcher.trigger_source import trigger_source
from trace_platform.wire import control

if TYPE_CHECKING:
    from trace_platform.dispatcher.api import Dispatcher

Limit = Annotated[int, Query(ge=1, le=1000)]


def install(app: FastAPI, me: Dispatcher) -> None:
    user = [require(lambda: (me.secrets.user_token,), "Authorization")]

    @app.post("/v1/dags", dependencies=user)
    async def deploy(body: control.DeployRequest) -> control.DeployResponse:
        return await deploy_dag(me.state, me.org_id, body.yaml, body.file, me.runtimes)

    @app.get("/v1/dags/{dag_name}", dependencies=user)
    async def show(dag_name: str, since: datetime | None = None) -> control.DagStatus:
        return await dag_status(me.state, me.org_id, dag_name, since)

    @app.post("/v1/sources/{dag_name}/{job_name}/trigger", dependencies=user)
    async def trigger(
        dag_name: str, job_name: str, body: control.TriggerRequest
    ) -> control.TriggerResponse:
        accepted = await trigger_source(me.state, me.org_id, dag_name, job_name, body)
        me.wake.set()
        return control.TriggerResponse(accepted=accepted)

    @app.post("/v1/events", dependencies=user)
    async def emit(body: control.EmitRequest) -> control.EmitResponse:
        accepted = await emit_events(me.state, me.org_id, body)
        me.wake.set()
        return control.EmitResponse(accepted=accepted)

    @app.get("/v1/tasks", dependencies=user)
    async def tasks(
        dag_name: str | None = None,
        job_name: str | None = None,
        status: control.Status | None = None,
        limit: Limit = 100,
    ) -> control.TaskList:
        return await list_tasks(me.state, me.org_id, dag_name, job_name, status, limit)

    @app.post("/v1/tasks/{task_id}/cancel", dependencies=user)
    async def cancel(task_id: UUID) -> control.TaskAction:
        return control.TaskAction(status=await cancel_task(me.state, me.org_id, task_id))

    @app.post("/v1/tasks/{task_id}/retry", dependencies=user)
    async def retry(task_id: UUID) -> control.TaskAction:
        await retry_task(me.state, me.org_id, task_id)
        me.wake.set()
        return control.TaskAction(status="Queued")
