"""The query process, from its arguments to a clean stop."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from trace_platform.data.database import DataDatabase
from trace_platform.data.kept_connections import KeptConnections
from trace_platform.drivers.https import Listen, serve_https
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.task_token import TokenVerifier
from trace_platform.query.protocol.messages import Limits
from trace_platform.query.service.admission import Admission
from trace_platform.query.service.api import create_app
from trace_platform.query.service.callers import Allowance, FindUser
from trace_platform.query.service.children import ChildPool
from trace_platform.query.service.dispatcher_client import DispatcherClient
from trace_platform.query.service.exports import Exports
from trace_platform.query.service.history import History
from trace_platform.query.service.metrics import Metrics
from trace_platform.query.service.run_query import Sources
from trace_platform.query.service.service import QueryService
from trace_platform.wire.query import MAX_REQUEST_BYTES


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are."""

    dispatcher_url: str
    store: ObjectStore
    # Folders below which the store keeps datasets: all that a child can read.
    readable: Sequence[str]
    export_bucket: str
    # For spilled rows, hot rows and large answers.
    scratch: Path
    data: DataDatabase | None = None
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    concurrency: int = 2
    max_waiting: int = 16
    per_caller: int = 8
    limits: Limits = field(default_factory=Limits)
    allowance: Allowance = field(default_factory=Allowance)


async def serve(
    listen: Listen,
    places: Places,
    service_token: str,
    find_user: FindUser,
    on_ready: Callable[[], None],
    capacity: Capacity | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. `on_ready` is called when every child is warm."""
    capacity = capacity or Capacity()
    places.scratch.mkdir(parents=True, exist_ok=True)
    dispatcher = DispatcherClient(places.dispatcher_url, service_token, places.ca)
    admission = Admission(capacity.concurrency, capacity.max_waiting, capacity.per_caller)
    at_once = capacity.concurrency + 1  # with the quick one
    connections = KeptConnections(places.data, keep=at_once) if places.data else None
    service = QueryService(
        # One more than run at once: it stands ready while another opens its next database.
        pool=ChildPool(
            at_once + 1,
            capacity.limits,
            readable=places.readable,
            scratch=places.scratch,
        ),
        admission=admission,
        sources=Sources(
            dispatcher, places.store, connections, hot_bytes=capacity.limits.hot_mb << 20
        ),
        history=History(dispatcher),
        exports=Exports(places.store, places.export_bucket),
        metrics=Metrics(admission),
        scratch=places.scratch,
    )
    tokens = TokenVerifier(_fetch_keys(places.dispatcher_url, places.ca))
    app = create_app(service, find_user, tokens, capacity.allowance)
    try:
        await serve_https(app, listen, on_ready, service.running.stop, MAX_REQUEST_BYTES)
    finally:
        if connections is not None:
            connections.close()
        await dispatcher.close()


def _fetch_keys(url: str, ca: Path | None) -> Callable[[], dict[str, Any]]:
    """The public keys of capability tokens, as the Dispatcher has them now."""
    verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca) if ca else True

    def fetch() -> dict[str, Any]:
        with httpx.Client(base_url=url, verify=verify, trust_env=False) as http:
            answer = http.get("/internal/jwks/task", timeout=5.0)
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
            return found

    return fetch
