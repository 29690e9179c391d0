"""The query service's HTTP: queries of users and tasks, their results, datasets and history."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID, uuid4

import msgspec
import structlog
from fastapi import FastAPI, Path, Query, Request, Response

from trace_platform.domain.errors import Unauthenticated
from trace_platform.drivers import openapi, problem
from trace_platform.drivers.authenticate import (
    CALLER,
    OPEN,
    Guard,
    bearer,
    capability,
    guard_routes,
)
from trace_platform.drivers.openapi import documented, documented_figures
from trace_platform.drivers.secret_schemes import Secret
from trace_platform.drivers.task_token import TokenVerifier
from trace_platform.query.service import metrics
from trace_platform.query.service.callers import Allowance, Caller, FindUser
from trace_platform.query.service.service import QueryService
from trace_platform.query.service.spool import Spool
from trace_platform.wire.control import Alive
from trace_platform.wire.query import (
    DATASETS_HEADER,
    ELAPSED_HEADER,
    MASKED_HEADER,
    MOMENTS_HEADER,
    QUERY_ID_HEADER,
    ROWS_HEADER,
    TRUNCATED_HEADER,
    DatasetList,
    DatasetPage,
    QueryExport,
    QueryFacts,
    QueryHistory,
    QueryPage,
    QueryRequest,
    QueryResponse,
    RunningQueries,
)

log = structlog.get_logger()

_CLIENT_WENT_AWAY = 499
_SWEEP_EVERY_S = 60.0
_PARQUET = "application/vnd.apache.parquet"
_MEDIA = {"arrow": "application/vnd.apache.arrow.stream", "csv": "text/csv; charset=utf-8"}
_READ_BYTES = 1 << 20

OfQuery = Annotated[
    UUID, Path(description="Id of the query, as the answer or the request says it.")
]
OfAnswer = Annotated[UUID, Path(description="Id of the answer, as its `next` or `link` says it.")]
PageNumber = Annotated[int, Path(description="Number of the page, from 1.")]


def create_app(
    service: QueryService, find_user: FindUser, tokens: TokenVerifier, allowance: Allowance
) -> FastAPI:
    """The app starts the service's children with itself and stops them with itself."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(service))
        try:
            await service.pool.start()
            yield
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
            await service.pool.close()
            service.pages.close()
            await service.history.close()

    app = FastAPI(title="Trace query", docs_url=None, redoc_url=None, lifespan=lifespan)
    problem.install(app)
    openapi.install(app)
    guard_routes(app)

    async def find_caller(request: Request) -> Caller:
        found = find_user(bearer(request))
        if found is None:
            raise Unauthenticated(
                "a valid user token is needed", hint="send it as Authorization: Bearer TOKEN"
            )
        return allowance.user(found)

    fetching = asyncio.Lock()

    async def read_token(request: Request) -> Caller:
        token = capability(request)
        if tokens.knows(token):
            return allowance.task(tokens.read(token))
        # Its key may be fetched: in a thread, and in one only, whatever strangers name.
        async with fetching:
            return allowance.task(await asyncio.to_thread(tokens.read, token))

    user = Guard(check=find_caller, opened_by="user")
    task = Guard(check=read_token, opened_by="task")

    @app.get(
        "/healthz",
        summary="Whether it answers",
        dependencies=[OPEN],
        **documented("services", None),
    )
    async def healthz() -> Alive:
        return Alive()

    @app.get(
        "/metrics",
        summary="Figures for Prometheus",
        dependencies=[user],
        response_class=Response,
        **documented_figures(),
    )
    async def figures() -> Response:
        return Response(service.metrics.exposition(), media_type=metrics.CONTENT_TYPE)

    _queries(app, service, user, task)
    _results(app, service, "/v1/query", user)
    _results(app, service, "/v1/task/query", task)
    _exports(app, service, user)
    _datasets(app, service, user)
    return app


def _queries(app: FastAPI, service: QueryService, user: Guard, task: Guard) -> None:
    @app.post(
        "/v1/query",
        summary="Run a query",
        dependencies=[user],
        **_answering("queries", "user"),
    )
    async def query(body: QueryRequest, request: Request, caller: Caller = CALLER) -> Response:
        """JSON in pages; CSV or Arrow as the answer's body; Parquet as a link to a file."""
        return await _while_wanted(request, _answer(service, caller, body))

    @app.post(
        "/v1/task/query",
        summary="Run a query over what an attempt reads",
        dependencies=[task],
        **_answering("queries of tasks", "task"),
    )
    async def task_query(body: QueryRequest, request: Request, caller: Caller = CALLER) -> Response:
        """JSON in pages; CSV, Arrow or Parquet as the answer's body."""
        return await _while_wanted(request, _answer(service, caller, body))

    @app.get(
        "/v1/query",
        summary="The caller's queries that run",
        dependencies=[user],
        **documented("queries", "user"),
    )
    async def running(caller: Caller = CALLER) -> RunningQueries:
        return service.running.of(caller.name)

    @app.delete(
        "/v1/query/{query_id}",
        summary="Stop a query",
        dependencies=[user],
        status_code=204,
        **documented("queries", "user", 404),
    )
    async def cancel(query_id: OfQuery, caller: Caller = CALLER) -> None:
        service.running.cancel(query_id, caller.name)

    @app.delete(
        "/v1/task/query/{query_id}",
        summary="Stop a query of an attempt",
        dependencies=[task],
        status_code=204,
        **documented("queries of tasks", "task", 404),
    )
    async def task_cancel(query_id: OfQuery, caller: Caller = CALLER) -> None:
        service.running.cancel(query_id, caller.name)

    @app.get(
        "/v1/queries",
        summary="The queries that the caller has asked",
        dependencies=[user],
        **documented("queries", "user"),
    )
    async def history(
        caller: Caller = CALLER,
        limit: Annotated[
            int, Query(ge=1, le=1000, description="At most this many, the newest first.")
        ] = 100,
    ) -> QueryHistory:
        return await service.sources.dispatcher.history(caller.name, limit)


def _answering(tag: str, who: Secret) -> dict[str, Any]:
    described = documented(tag, who, 404, 409, 413, 429)
    described["responses"][200] = {
        "model": QueryResponse | QueryExport,
        "content": {media: {} for media in _MEDIA.values()},
    }
    return described


def _results(app: FastAPI, service: QueryService, path: str, who: Guard) -> None:
    described = documented("queries", "user", 404)
    if who.opened_by == "task":
        described = documented("queries of tasks", "task", 404)
    described["responses"][200] = {"model": QueryPage}

    @app.get(
        path + "/{answer_id}/pages/{number}",
        summary="A page of a query's answer",
        dependencies=[who],
        **described,
    )
    async def page(answer_id: OfAnswer, number: PageNumber, caller: Caller = CALLER) -> Response:
        spool = service.pages.find(caller.keeper, answer_id, number)
        return _page(service, caller, {}, answer_id, spool, number)


def _exports(app: FastAPI, service: QueryService, user: Guard) -> None:
    described = documented("queries", "user", 404)
    described["responses"][200] = {"description": "The file.", "content": {_PARQUET: {}}}

    @app.get(
        "/v1/exports/{answer_id}",
        summary="The Parquet file of a query's answer",
        dependencies=[user],
        response_class=Response,
        **described,
    )
    async def export(answer_id: OfAnswer, caller: Caller = CALLER) -> Response:
        stream, size = await asyncio.to_thread(service.exports.open, caller.keeper, answer_id)
        headers = {"Content-Disposition": f'attachment; filename="{answer_id}.parquet"'}
        parts = iter(lambda: stream.read(_READ_BYTES), b"")
        return service.answering.answer(caller, parts, size, _PARQUET, headers, stream.close)


def _datasets(app: FastAPI, service: QueryService, user: Guard) -> None:
    @app.get(
        "/v1/datasets",
        summary="The datasets that can be queried",
        dependencies=[user],
        **documented("datasets", "user"),
    )
    async def datasets() -> DatasetList:
        return await service.sources.dispatcher.datasets()

    @app.get(
        "/v1/datasets/{name}",
        summary="All of a dataset on one page",
        dependencies=[user],
        **documented("datasets", "user", 404),
    )
    async def dataset(
        name: Annotated[
            str,
            Path(
                pattern="^[A-Za-z0-9_][A-Za-z0-9_.-]{0,511}$",
                description="A published name, DAG.JOB or DAG.JOB.OUTPUT.",
            ),
        ],
    ) -> DatasetPage:
        """Its columns, generations, partitions, where it comes from, whether it is up to date."""
        return await service.sources.dispatcher.dataset(name)


async def _answer(service: QueryService, caller: Caller, body: QueryRequest) -> Response:
    facts, spool = await service.answer(caller, body)
    try:
        if body.format == "json":
            return _first_page(service, caller, facts, spool)
        if body.format == "parquet" and caller.kind == "user":
            return await _export(service, caller, facts, spool)
        return _whole(service, caller, body, facts, spool)
    except BaseException:
        spool.close()
        raise


def _first_page(service: QueryService, caller: Caller, facts: QueryFacts, spool: Spool) -> Response:
    said, answer_id = facts.model_dump(mode="json"), _answer_id()
    if not spool.chunks:
        spool.write(b"[]")
    if spool.chunks == 1:
        return _page(service, caller, said, answer_id, spool, 1, spool.close)
    page = _page(service, caller, said, answer_id, spool, 1)
    # Not before: one that is refused is closed, and none of its pages can be read.
    service.pages.keep(caller.keeper, answer_id, spool)
    return page


def _answer_id() -> UUID:
    """Of one execution: whoever asks again with the same query_id, as after a lost reply, gets
    another answer, and rows of the two never mix."""
    return uuid4()


def _page(
    service: QueryService,
    caller: Caller,
    said: dict[str, Any],
    answer_id: UUID,
    spool: Spool,
    number: int,
    close: Callable[[], None] = lambda: None,
) -> Response:
    """With rows that the child encoded copied in as they are."""
    path = "/v1/query" if caller.kind == "user" else "/v1/task/query"
    more = number < spool.chunks
    said["next"] = f"{path}/{answer_id}/pages/{number + 1}" if more else None
    head = msgspec.json.encode(said)[:-1] + b',"rows":'
    parts = itertools.chain([head], spool.chunk(number - 1), [b"}"])
    size = len(head) + spool.chunk_size(number - 1) + 1
    return service.answering.answer(caller, parts, size, "application/json", {}, close)


async def _export(
    service: QueryService, caller: Caller, facts: QueryFacts, spool: Spool
) -> Response:
    answer_id = _answer_id()
    digest = await asyncio.to_thread(spool.sha256)
    until = await asyncio.to_thread(service.exports.keep, caller.keeper, answer_id, spool)
    size = spool.size
    spool.close()
    said = QueryExport(
        **facts.model_dump(),
        link=f"/v1/exports/{answer_id}",
        bytes=size,
        sha256=digest,
        expires_at=until,
    )
    return Response(said.model_dump_json(), media_type="application/json")


def _whole(
    service: QueryService, caller: Caller, body: QueryRequest, facts: QueryFacts, spool: Spool
) -> Response:
    headers = {
        QUERY_ID_HEADER: str(facts.query_id),
        ROWS_HEADER: str(facts.row_count),
        TRUNCATED_HEADER: str(facts.truncated).lower(),
        ELAPSED_HEADER: str(facts.elapsed_ms),
        DATASETS_HEADER: ",".join(f"{each.name}@{each.dataset_version}" for each in facts.datasets),
    }
    masked = [f"{each.name}.{quote(column)}" for each in facts.datasets for column in each.masked]
    if masked:
        headers[MASKED_HEADER] = ",".join(masked)
    moments = [f"{each.name}@{each.at.isoformat()}" for each in facts.datasets if each.at]
    if moments:
        headers[MOMENTS_HEADER] = ",".join(moments)
    media = _MEDIA.get(body.format, _PARQUET)
    return service.answering.answer(caller, spool.read(), spool.size, media, headers, spool.close)


async def _while_wanted(request: Request, answer: Any) -> Response:
    """The answer, unless the client goes away first: that stops the query."""
    running = asyncio.create_task(answer)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({running, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            return Response(status_code=_CLIENT_WENT_AWAY)
        found: Response = await running
        return found
    finally:
        # Also when the server stops: a cancelled query kills its child.
        running.cancel()
        gone.cancel()
        await asyncio.gather(running, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _sweep(service: QueryService) -> None:
    while True:
        try:
            service.pages.forget()
            await asyncio.to_thread(service.exports.sweep)
        except Exception as error:
            # What could not be deleted now is looked at again.
            log.warning("exports_not_swept", error=type(error).__name__)
        await asyncio.sleep(_SWEEP_EVERY_S)
