"""The query service's HTTP: `POST /v1/query`, `GET /v1/datasets`, `GET /healthz`."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import structlog
from fastapi import Depends, FastAPI, Request, Response

from trace_platform.domain.errors import TraceError, Unauthenticated, Unavailable
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.query.children import ChildPool
from trace_platform.query.dispatcher_client import Resolver
from trace_platform.query.messages import Answer
from trace_platform.wire import problem
from trace_platform.wire.query import (
    DatasetList,
    DatasetSummary,
    QueryRequest,
    QueryResponse,
    ResolvedDataset,
)

log = structlog.get_logger()

_CLIENT_WENT_AWAY = 499

# True for a valid token; compares in constant time.
VerifyUser = Callable[[str], bool]


def create_app(
    resolver: Resolver, store: ObjectStore, verify_user: VerifyUser, pool: ChildPool
) -> FastAPI:
    """The app starts the pool with itself and stops it with itself."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await pool.start()
            yield
        finally:
            await pool.close()

    app = FastAPI(title="Trace query", docs_url=None, redoc_url=None, lifespan=lifespan)
    problem.install(app)
    user = Depends(_authenticated(verify_user))

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/datasets", dependencies=[user])
    async def datasets() -> DatasetList:
        return DatasetList(datasets=[_summary(d) for d in await resolver.datasets()])

    @app.post("/v1/query", dependencies=[user], responses={200: {"model": QueryResponse}})
    async def query(body: QueryRequest, request: Request) -> Response:
        running = asyncio.create_task(_run(body, resolver, store, pool))
        gone = asyncio.create_task(_disconnected(request))
        try:
            await asyncio.wait({running, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                return Response(status_code=_CLIENT_WENT_AWAY)
            return Response(await running, media_type="application/json")
        finally:
            # Also when the server stops: a cancelled query kills its child.
            running.cancel()
            gone.cancel()
            await asyncio.gather(running, gone, return_exceptions=True)

    return app


async def _run(
    body: QueryRequest, resolver: Resolver, store: ObjectStore, pool: ChildPool
) -> bytes:
    started = time.perf_counter()
    # The statement itself may hold data: only its hash is kept.
    audit = log.bind(sql_sha256=hashlib.sha256(body.sql.encode()).hexdigest())
    try:
        published = {dataset.name: dataset for dataset in await resolver.datasets()}
        answer, used = await pool.run(
            body.sql, body.limit, published, lambda dataset: local_files(store, dataset)
        )
    except TraceError as error:
        audit.info("query refused", code=error.code, elapsed_ms=_elapsed_ms(started))
        raise
    elapsed_ms = _elapsed_ms(started)
    audit.info("query", datasets=used, rows=answer.row_count, elapsed_ms=elapsed_ms)
    return _encoded(answer, used, elapsed_ms)


def local_files(store: ObjectStore, dataset: ResolvedDataset) -> list[str]:
    """Where the dataset's files are on this machine."""
    paths = []
    for uri in dataset.files:
        filesystem, path = store.filesystem(uri)
        if filesystem.type_name != "local":
            raise Unavailable(f"the object store of {dataset.name!r} cannot be queried yet")
        paths.append(path)
    return paths


def _encoded(answer: Answer, datasets: list[str], elapsed_ms: float) -> bytes:
    """A QueryResponse, with the child's encoded rows copied in as they are."""
    return msgspec.json.encode(
        {
            "columns": answer.columns,
            "rows": answer.rows,
            "row_count": answer.row_count,
            "truncated": answer.truncated,
            "elapsed_ms": elapsed_ms,
            "datasets": datasets,
        }
    )


def _elapsed_ms(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _authenticated(verify_user: VerifyUser) -> Callable[[Request], None]:
    def authenticate(request: Request) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not verify_user(token.strip()):
            raise Unauthenticated(
                "a valid user token is needed", hint="send it as Authorization: Bearer TOKEN"
            )

    return authenticate


def _summary(dataset: ResolvedDataset) -> DatasetSummary:
    return DatasetSummary(
        name=dataset.name,
        dataset_uuid=dataset.dataset_uuid,
        dataset_version=dataset.dataset_version,
        columns=dataset.columns,
        file_count=len(dataset.files),
        row_count=dataset.row_count,
    )
