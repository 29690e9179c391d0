"""The query process, from its arguments to a clean stop."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from pathlib import Path

from trace_platform.drivers.https import Listen, serve_https
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.query.api import VerifyUser, create_app
from trace_platform.query.children import ChildPool
from trace_platform.query.dispatcher_client import DispatcherClient
from trace_platform.query.messages import Limits


async def serve(
    listen: Listen,
    dispatcher_url: str,
    service_token: str,
    user_token: str,
    ca: Path | None,
    store: ObjectStore,
    on_ready: Callable[[], None],
    *,
    limits: Limits | None = None,
    children: int = 2,
    max_waiting: int = 16,
) -> None:
    """Serve until SIGTERM or SIGINT. `on_ready` is called when every child is warm."""
    dispatcher = DispatcherClient(dispatcher_url, service_token, ca)
    pool = ChildPool(children, limits, max_waiting=max_waiting)
    app = create_app(dispatcher, store, token_check(user_token), pool)
    try:
        await serve_https(app, listen, on_ready)
    finally:
        await dispatcher.close()


def token_check(user_token: str) -> VerifyUser:
    expected = user_token.encode()
    return lambda token: hmac.compare_digest(token.encode(), expected)
