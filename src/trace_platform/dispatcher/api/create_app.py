"""All routes, by who calls them and what they are about."""

from __future__ import annotations

from fastapi import FastAPI

from trace_platform.dispatcher.api import (
    abis,
    alerts,
    attempts,
    backfills,
    checks,
    dags,
    datasets,
    dead_letters,
    hooks,
    invalidations,
    services,
    sources,
    users,
    workers,
)
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.tasks.batches import Batches
from trace_platform.drivers import openapi, problem
from trace_platform.drivers.authenticate import guard_routes


def create_app(dispatcher: Dispatcher) -> FastAPI:
    app = FastAPI(title="Trace Dispatcher", docs_url=None, redoc_url=None)
    problem.install(app)
    openapi.install(app)
    guard_routes(app)
    route = Routes(dispatcher.secrets, dispatcher.grants.tokens)
    batches = Batches(dispatcher)
    workers.install(app, dispatcher, route, batches)
    attempts.install(app, dispatcher, route, batches)
    for part in (
        *(abis, alerts, backfills, checks, dags, datasets, dead_letters, hooks),
        *(invalidations, services, sources, users),
    ):
        part.install(app, dispatcher, route)
    return app
