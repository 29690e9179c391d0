"""The route that strangers post to: no token opens it, only a signature."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Path, Request

from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.api.unproven_bodies import UnprovenBodies
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.sources.receive_hook import Delivery, Receiving, receive_hook
from trace_platform.drivers.headers import WEBHOOK_SIGNATURE
from trace_platform.wire.sources import HookResponse

MAX_BODY_BYTES = 1_000_000
# Of all bodies that wait to be checked, and how many are checked at once.
MAX_HELD_BYTES = 64_000_000
MAX_CHECKED = 64

# Any text: a name that nobody has is refused like a signature that is wrong.
OfHook = Annotated[str, Path(description="Name of the DAG.")]
HookNamed = Annotated[str, Path(description="Name of the webhook source in it.")]


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    bodies = UnprovenBodies(MAX_BODY_BYTES, MAX_HELD_BYTES, MAX_CHECKED)
    described = route("events", "webhook", 409, 413)
    described["openapi_extra"]["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }

    @app.post("/v1/hooks/{dag_name}/{job_name}", summary="Deliver to a webhook source", **described)
    async def deliver(dag_name: OfHook, job_name: HookNamed, request: Request) -> HookResponse:
        """Signed as Standard Webhooks say: webhook-id, webhook-timestamp, webhook-signature. The
        same webhook-id again changes nothing."""
        receiving = Receiving(
            dispatcher.state,
            dispatcher.store,
            dispatcher.grants.bucket,
            dispatcher.org_id,
            dispatcher.secrets.named,
        )
        headers = request.headers
        async with bodies.of(request) as body:
            delivery = Delivery(
                dag_name,
                job_name,
                webhook_id=headers.get("webhook-id", ""),
                timestamp=headers.get("webhook-timestamp", ""),
                signatures=headers.get(WEBHOOK_SIGNATURE, ""),
                body=body,
            )
            accepted = await receive_hook(receiving, delivery)
        dispatcher.wake.set()
        return HookResponse(accepted=accepted)
