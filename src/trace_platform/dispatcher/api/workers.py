"""Routes for worker wrappers: claim, and the batched forms of heartbeat and completion.

A wrapper is trusted: it holds a worker token, and the lease token of every attempt it speaks for.
"""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import FastAPI, Path, Query, Response
from pydantic import BaseModel

from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.health.describe import fetch_task
from trace_platform.dispatcher.tasks.batches import Batches
from trace_platform.dispatcher.tasks.claim_task import claim_task
from trace_platform.dispatcher.tasks.fetch_code import fetch_code
from trace_platform.dispatcher.tasks.record_worker import record_worker
from trace_platform.dispatcher.tasks.take_over import take_over
from trace_platform.domain.errors import TraceError
from trace_platform.drivers import problem
from trace_platform.wire import task


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes, batches: Batches) -> None:
    _claims(app, dispatcher, route, batches)
    _reports(app, dispatcher, route, batches)


def _claims(app: FastAPI, dispatcher: Dispatcher, route: Routes, batches: Batches) -> None:
    @app.post(
        "/internal/task-claim",
        summary="Claim one task",
        response_model=task.ClaimResponse,
        **route("workers", "worker"),
    )
    async def claim(body: task.ClaimRequest) -> task.Claimed | task.NotClaimed:
        return await claim_task(dispatcher.state, dispatcher.grants, body)

    @app.post(
        "/internal/task-claims",
        summary="Claim the tasks whose turn it is",
        response_model=task.ClaimBatchResponse,
        **route("workers", "worker"),
    )
    async def claim_some(body: task.ClaimBatchRequest) -> Response:
        return _json(task.ClaimBatchResponse(claimed=await batches.claim(body)))

    @app.get(
        "/internal/task-fetch",
        summary="Look at a task without claiming it",
        **route("workers", "worker", 404),
    )
    async def fetch(
        task_id: Annotated[UUID, Query(description="Id of the task.")],
    ) -> task.FetchResponse:
        return await fetch_task(dispatcher.state, dispatcher.grants.bucket, task_id)

    @app.get(
        "/internal/operator-code/{digest}",
        summary="The code of an operator that lies beside a DAG",
        **route("workers", "worker", 404),
    )
    async def code(
        digest: Annotated[
            str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 of the code, in hex.")
        ],
    ) -> Response:
        """The files by name. The SHA-256 of the answer is what was asked for."""
        return Response(await fetch_code(dispatcher.state, digest), media_type="application/json")

    @app.get(
        "/internal/jwks/task",
        summary="The public keys of capability tokens",
        **route("workers", None),
    )
    async def jwks() -> dict[str, Any]:
        return dispatcher.grants.tokens.jwks

    @app.post(
        "/internal/worker-starts",
        summary="Give up what earlier workers of this identity held",
        **route("workers", "worker"),
    )
    async def start(body: task.TakeOverRequest) -> task.TakeOverResponse:
        given_up = await take_over(dispatcher.state, body)
        dispatcher.metrics.leases_expired(len(given_up))
        dispatcher.wake.set()
        return task.TakeOverResponse(given_up=len(given_up))


def _reports(app: FastAPI, dispatcher: Dispatcher, route: Routes, batches: Batches) -> None:
    @app.post(
        "/internal/task-heartbeats",
        summary="Keep the leases of a worker",
        response_model=task.HeartbeatBatchResponse,
        **route("workers", "worker"),
    )
    async def beat_all(body: task.HeartbeatBatchRequest) -> Response:
        await record_worker(dispatcher.state, body)
        answers = await batches.heartbeats(body.beats)
        results = [
            task.HeartbeatResult(problem=problem.as_item(answer))
            if isinstance(answer, TraceError)
            else task.HeartbeatResult(lease=answer)
            for answer in answers
        ]
        return _json(task.HeartbeatBatchResponse(results=results))

    @app.post(
        "/internal/task-completions",
        summary="End attempts of a worker",
        response_model=task.CompleteBatchResponse,
        **route("workers", "worker", 413),
    )
    async def complete_all(body: task.CompleteBatchRequest) -> Response:
        answers = await batches.completions(body.completions)
        dispatcher.wake.set()
        results = [
            task.CompleteResult(problem=problem.as_item(answer))
            if isinstance(answer, TraceError)
            else task.CompleteResult(completion=answer)
            for answer in answers
        ]
        return _json(task.CompleteBatchResponse(results=results))


def _json(answer: BaseModel) -> Response:
    """Straight to bytes: these answers are large, and ours."""
    return Response(answer.model_dump_json(), media_type="application/json")
