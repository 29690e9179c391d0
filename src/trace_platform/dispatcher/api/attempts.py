"""Routes for the code of one attempt: its token and its fence open them, and nothing else."""

from __future__ import annotations

from typing import TypeVar

from fastapi import FastAPI

from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.events.publish_buffer import publish_buffer
from trace_platform.dispatcher.events.record_events import record_events
from trace_platform.dispatcher.tasks.batches import Batches
from trace_platform.dispatcher.tasks.read_state import read_state
from trace_platform.dispatcher.tasks.task_tokens import refuse_others
from trace_platform.domain.errors import TraceError
from trace_platform.drivers.authenticate import CALLER
from trace_platform.drivers.task_token import TaskClaims
from trace_platform.wire import task
from trace_platform.wire.operator_state import StateResponse

Answer = TypeVar("Answer")


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes, batches: Batches) -> None:
    @app.post("/v1/task/heartbeat", summary="Keep the lease", **route("task", "task", 403, 409))
    async def beat(
        body: task.HeartbeatRequest, claims: TaskClaims = CALLER
    ) -> task.HeartbeatResponse:
        refuse_others(claims, body.fence)
        (answer,) = await batches.heartbeats([body])
        return _raised(answer)

    @app.post(
        "/v1/task/events",
        summary="Emit events of the task's outputs",
        **route("task", "task", 403, 404, 409, 413),
    )
    async def emit(body: task.EventsRequest, claims: TaskClaims = CALLER) -> task.Accepted:
        refuse_others(claims, body.fence)
        accepted = await record_events(
            dispatcher.state, body, dispatcher.grants.trusts, dispatcher.metrics.ranges_rewritten
        )
        dispatcher.wake.set()
        return task.Accepted(accepted=accepted)

    @app.post(
        "/v1/task/state",
        summary="Read what earlier attempts of the job have kept",
        **route("task", "task", 403, 409),
    )
    async def state(body: task.Fenced, claims: TaskClaims = CALLER) -> StateResponse:
        refuse_others(claims, body.fence)
        return StateResponse(state=await read_state(dispatcher.state, body.fence))

    @app.post(
        "/v1/task/complete",
        summary="End the attempt, and commit its outputs",
        **route("task", "task", 403, 404, 409, 413),
    )
    async def complete(
        body: task.CompleteRequest, claims: TaskClaims = CALLER
    ) -> task.CompleteResponse:
        refuse_others(claims, body.fence)
        (answer,) = await batches.completions([body])
        dispatcher.wake.set()
        return _raised(answer)

    @app.post(
        "/v1/task/buffer-publish",
        summary="Hand over a batch for a buffered dataset",
        **route("task", "task", 403, 404, 409),
    )
    async def publish(
        body: task.BufferPublishRequest, claims: TaskClaims = CALLER
    ) -> task.BufferPublishResponse:
        refuse_others(claims, body.fence)
        accepted = await publish_buffer(dispatcher.state, dispatcher.grants.scratch_bucket, body)
        dispatcher.wake.set()
        return task.BufferPublishResponse(accepted=accepted)


def _raised(answer: Answer | TraceError) -> Answer:
    if isinstance(answer, TraceError):
        raise answer
    return answer
