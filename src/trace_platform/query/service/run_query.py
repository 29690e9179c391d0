"""One query, from its text to its bytes: check, resolve, bring the hot rows, run."""

from __future__ import annotations

import asyncio
import contextlib
import time
from asyncio import Future
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from trace_platform.data.kept_connections import KeptConnections
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, RangeNotReady, Unavailable
from trace_platform.domain.file_ranges import held_by, uncovered
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.query.protocol.messages import Done, Plan, Relation, Run, Scan
from trace_platform.query.service.callers import Caller
from trace_platform.query.service.children import Child
from trace_platform.query.service.described import described
from trace_platform.query.service.dispatcher_client import DispatcherClient
from trace_platform.query.service.hot_rows import HotTables, open_tables
from trace_platform.query.service.resolve import Resolved, no_data, resolve, with_files_of_now
from trace_platform.query.service.spool import Spool
from trace_platform.sql.relations import Column, Described
from trace_platform.wire.query import DEFAULT_ROWS, QueryRequest

_LEAVE_S = 1.0
_MOST_LEFT = 16
_THREADS = ThreadPoolExecutor(64, "hot-rows")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the rows of datasets are."""

    dispatcher: DispatcherClient
    store: ObjectStore
    # None: no dataset has rows in Postgres.
    data: KeptConnections | None
    hot_bytes: int
    # Reads that a query did not wait for the end of.
    left_behind: set[Future[None]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Readable:
    """What a statement reads."""

    relations: list[Resolved] = field(default_factory=list)
    catalog: list[Described] = field(default_factory=list)


async def resolved(
    child: Child, request: QueryRequest, caller: Caller, sources: Sources
) -> Readable:
    """Raise InvalidQuery when the statement is refused."""
    checked = await child.check(request.sql)
    relations = await resolve(checked.references, caller, request.at, sources.dispatcher)
    catalog = await described(caller, sources.dispatcher) if checked.reads_catalog else []
    return Readable(relations, catalog)


async def run_query(
    child: Child,
    request: QueryRequest,
    caller: Caller,
    read: Readable,
    sources: Sources,
    spool: Spool,
) -> Done:
    """Run what `resolved` checked. Raise QueryTooLarge when time, memory or size do not suffice."""
    give_up = time.monotonic() + caller.timeout_s
    async with _brought_in(child, read.relations, sources) as given:
        limit = request.limit or (DEFAULT_ROWS if request.format == "json" else None)
        asked = Run(
            relations=given,
            catalog=read.catalog,
            format=request.format,
            limit=limit,
            page_rows=request.page_rows,
            timeout_s=max(0.1, give_up - time.monotonic()),
        )
        return await child.run(asked, spool.write)


@contextlib.asynccontextmanager
async def _brought_in(
    child: Child, relations: list[Resolved], sources: Sources
) -> AsyncIterator[list[Relation]]:
    """The relations as the child reads them; hot rows are there until the block ends."""
    if not any(each.dataset.table for each in relations):
        yield [cold_relation(each, sources.store) for each in relations]
        return
    paths: list[Path] = []
    try:
        yield await _brought(child, relations, sources, paths)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


async def _brought(
    child: Child, relations: list[Resolved], sources: Sources, paths: list[Path]
) -> list[Relation]:
    """With the rows of tables in files, whose paths are added as they are made. The snapshot is
    over before the statement runs."""
    async with _opened(sources, relations, child) as tables:
        # Only now: what leaves a table after its snapshot was taken is in files before that.
        relations = await with_files_of_now(relations, sources.dispatcher)
        given = [_relation(each, tables, sources.store) for each in relations]
        planned = await child.plan(Plan(given))
        room = sources.hot_bytes
        for n, (relation, one) in enumerate(zip(given, relations, strict=True)):
            if not relation.hot_columns or relation.seam is None:
                continue
            # A reader that was given up may still hold the file of an earlier query.
            path = child.scratch / f"hot-{uuid4().hex}.arrow"
            paths.append(path)
            scan = planned.scans.get(relation.view, Scan())
            await _in_thread(tables.write, one.version, scan, path, room)
            room -= path.stat().st_size
            given[n] = msgspec.structs.replace(relation, hot=str(path))
    return given


@contextlib.asynccontextmanager
async def _opened(
    sources: Sources, relations: Sequence[Resolved], child: Child
) -> AsyncIterator[HotTables]:
    """Leaving it ends a read that is under way. A Postgres that does not even answer that is left
    behind: neither the query nor the next one waits for it. Raise Unavailable when the query was
    stopped while it waited for one."""
    if sources.data is None:
        raise InvalidConfig("this query service has no Postgres data")
    if len(sources.left_behind) >= _MOST_LEFT:
        raise _no_answer()
    versions = [each.version for each in relations if each.dataset.table]
    opened = open_tables(sources.data, versions)
    entering = _in_thread(opened.__enter__)
    is_stopped = False
    try:
        yield await asyncio.shield(entering)
    except asyncio.CancelledError:
        is_stopped = True
        raise
    finally:
        leaving = asyncio.ensure_future(_left(opened, entering))
        sources.left_behind.add(leaving)
        leaving.add_done_callback(sources.left_behind.discard)
        try:
            await asyncio.wait({leaving}, timeout=_LEAVE_S)
        finally:
            # A thread that still writes into the child's folder is no company for another query.
            child.fit = child.fit and leaving.done()
        if is_stopped and not leaving.done():
            raise _no_answer()


def _no_answer() -> Unavailable:
    return Unavailable("Postgres data does not answer", hint="see `trace status`", outage=True)


async def _left(opened: AbstractContextManager[HotTables], entering: Future[HotTables]) -> None:
    await asyncio.wait({entering})
    if entering.exception() is None:
        with contextlib.suppress(Unavailable):
            await _in_thread(opened.__exit__, None, None, None)


def _in_thread(do: Callable[..., T], *given: Any) -> Future[T]:
    """Of their own: those that hang take none from others."""
    return asyncio.get_running_loop().run_in_executor(_THREADS, do, *given)


def _relation(one: Resolved, tables: HotTables, store: ObjectStore) -> Relation:
    if not one.dataset.table:
        return cold_relation(one, store)
    hot = tables.columns(one.version)
    if not hot:
        return cold_relation(one, store)
    refuse_gap(one, tables.seam(one.version), tables.origin(one.version))
    cold = _columns(one) if one.files else []
    known = {column.name for column in cold}
    return Relation(
        view=one.reference.view,
        files=_local_files(store, one),
        mixed=one.dataset.mixed,
        seam=tables.seam(one.version),
        columns=[*cold, *(column for column in hot if column.name not in known)],
        hot_columns=hot,
        where=one.where,
        masked=list(one.masked),
        not_personal=one.dataset.not_personal,
    )


def refuse_gap(one: Resolved, seam: int | None, origin: int | None) -> None:
    """Rows that have left the table are in files, unless these were rolled back or are no part of
    the dataset any more: an answer without them would be wrong, and nobody would notice."""
    starts = [held.start for held in held_by(one.files)[:1]]
    if origin is not None:
        starts.append(origin)
    if seam is None or not starts or min(starts) >= seam:
        return
    gap = uncovered([BlockRange(min(starts), seam - 1)], one.files)
    if gap is not None:
        raise RangeNotReady(
            f"blocks {gap.key} of {one.reference.name!r} are neither in its table, which begins at"
            f" {seam}, nor in files",
            hint="`trace why` tells whether they are being written; files that were rolled back, or"
            " are not the dataset's `cold` part any more, are there again with their version",
        )


def cold_relation(one: Resolved, store: ObjectStore) -> Relation:
    if not one.files and not one.dataset.columns:
        raise no_data(one)
    return Relation(
        view=one.reference.view,
        files=_local_files(store, one),
        mixed=one.dataset.mixed,
        columns=_columns(one),
        merges=dict(one.dataset.merges),
        where=one.where,
        masked=list(one.masked),
        not_personal=one.dataset.not_personal,
    )


def _columns(one: Resolved) -> list[Column]:
    return [Column(each.name, each.type) for each in one.dataset.columns or ()]


def _local_files(store: ObjectStore, one: Resolved) -> list[str]:
    """Where the files are on this machine."""
    paths = []
    for uri in one.files:
        filesystem, path = store.filesystem(uri)
        if filesystem.type_name != "local":
            raise Unavailable(f"the object store of {one.reference.name!r} cannot be queried yet")
        paths.append(path)
    return paths
