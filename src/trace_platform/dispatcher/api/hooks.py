"""The route that strangers post to: no token opens it, only a signature."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.receive_hook import Delivery, Receiving, receive_hook
from trace_platform.wire.headers import WEBHOOK_SIGNATURE
from trace_platform.wire.sources import HookResponse

MAX_BODY_BYTES = 1_000_000
# Deliveries at once. The others wait, unread: nobody knows yet who sent them.
MAX_DELIVERIES = 64


def install(app: FastAPI, me: Dispatcher, route: Routes) -> None:
    room = asyncio.Semaphore(MAX_DELIVERIES)
    described = route("events", "webhook", 409, 413)
    described["openapi_extra"]["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }

    @app.post("/v1/hooks/{dag_name}/{job_name}", summary="Deliver to a webhook source", **described)
    async def deliver(dag_name: str, job_name: str, request: Request) -> HookResponse:
        """Signed as Standard Webhooks say: webhook-id, webhook-timestamp, webhook-signature. The
        same webhook-id again changes nothing."""
        receiving = Receiving(me.state, me.store, me.grants.bucket, me.org_id, me.secrets.named)
        headers = request.headers
        async with room:
            delivery = Delivery(
                dag_name,
                job_name,
                webhook_id=headers.get("webhook-id", ""),
                timestamp=headers.get("webhook-timestamp", ""),
                signatures=headers.get(WEBHOOK_SIGNATURE, ""),
                body=await _body(request),
            )
            accepted = await receive_hook(receiving, delivery)
        me.wake.set()
        return HookResponse(accepted=accepted)


async def _body(request: Request) -> bytes:
    """No more of it is held than is allowed."""
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise HTTPException(413, f"the body is larger than {MAX_BODY_BYTES:,} bytes")
            parts.append(part)
    except ClientDisconnect:
        raise HTTPException(400, "the body does not arrive") from None
    return b"".join(parts)
