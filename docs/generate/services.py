"""The services that answer over HTTP, made to describe themselves: nothing behind them runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI

from trace_platform.dispatcher.api.create_app import create_app as dispatcher_app
from trace_platform.gateway.own_routes import create_app as gateway_app
from trace_platform.query.service.api import create_app as query_app
from trace_platform.rpc.api import create_app as rpc_app
from trace_platform.rpc.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    about: str
    create: Callable[[], FastAPI]

    def describe(self) -> dict[str, Any]:
        """Its OpenAPI."""
        return self.create().openapi()


def _dispatcher() -> FastAPI:
    some = "secret"
    secrets = SimpleNamespace(
        user_token=some, service_token=some, worker_tokens=lambda: (some,), named={}
    )
    unused: Any = SimpleNamespace(secrets=secrets, grants=SimpleNamespace(tokens=None))
    return dispatcher_app(unused)


def _query() -> FastAPI:
    unused: Any = None
    return query_app(unused, unused, unused, unused)


def _rpc() -> FastAPI:
    return rpc_app({}, Metrics(), tuple, "none", nullcontext)


def _gateway() -> FastAPI:
    unused: Any = None
    return gateway_app(unused)


DISPATCHER = Service(
    "Dispatcher",
    "The control plane: DAGs, tasks, datasets, and what workers and the other services ask it.",
    _dispatcher,
)
QUERY = Service(
    "Query service",
    "SQL over datasets; [Queries](../query.md) tells what statements may say, and of "
    "answers in other formats than JSON.",
    _query,
)
RPC = Service(
    "RPC egress",
    "The pools of chain nodes. Workers send JSON-RPC to `POST /pools/{name}` with the worker "
    "token, which [RPC egress](../rpc.md) describes; it is no part of this list.",
    _rpc,
)
GATEWAY = Service(
    "Gateway",
    "What it answers itself. It passes on what is for the callers `user` and `webhook` of the "
    "services above: [The gateway](../gateway.md) says under which paths.",
    _gateway,
)
SERVICES = (DISPATCHER, QUERY, RPC, GATEWAY)
