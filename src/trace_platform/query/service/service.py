"""The query service without its HTTP: admits, runs and records queries."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import structlog

from trace_platform.domain.errors import (
    InternalError,
    QueryCanceled,
    QueryTooLarge,
    TooManyQueries,
    TraceError,
)
from trace_platform.query.protocol.messages import Done
from trace_platform.query.protocol.timed_out import timed_out
from trace_platform.query.service.admission import Admission
from trace_platform.query.service.answering import Answering
from trace_platform.query.service.callers import Caller
from trace_platform.query.service.children import ChildPool
from trace_platform.query.service.exports import Exports
from trace_platform.query.service.history import History
from trace_platform.query.service.metrics import Metrics
from trace_platform.query.service.pages import Pages
from trace_platform.query.service.resolve import Resolved
from trace_platform.query.service.run_query import Sources, resolved, run_query
from trace_platform.query.service.running import Running
from trace_platform.query.service.spool import Spool
from trace_platform.wire.query import (
    QueryColumn,
    QueryFacts,
    QueryRecord,
    QueryRequest,
    UsedDataset,
)

log = structlog.get_logger()

# How long a query may have the quick place, and until it is made to leave.
QUICK_S, _QUICK_GRACE_S = 1.0, 0.25


@dataclass(frozen=True, slots=True)
class QueryService:
    pool: ChildPool
    admission: Admission
    sources: Sources
    history: History
    exports: Exports
    metrics: Metrics
    # For answers that do not fit memory.
    scratch: Path
    running: Running = field(default_factory=Running)
    answering: Answering = field(default_factory=Answering)
    pages: Pages = field(default_factory=Pages)

    async def answer(self, caller: Caller, request: QueryRequest) -> tuple[QueryFacts, Spool]:
        """What is said of the result, and its bytes: the caller closes the spool. Cancelling it
        stops the query."""
        asked = _Asked(caller, request)
        spool = Spool(self.scratch, caller.max_bytes)
        try:
            with self.running.query(asked.query_id, caller.name, asked.sql_sha256):
                done = await self._run(asked, spool)
            await self._answered(asked, asked.record(done.row_count, spool.size))
            return asked.facts(done), spool
        except TraceError as error:
            spool.close()
            await self._refused(asked, error.code)
            raise
        except asyncio.CancelledError:
            spool.close()
            self._ended(asked, QueryCanceled.code)
            raise
        except BaseException:
            spool.close()
            self._ended(asked, InternalError.code)
            raise

    async def _run(self, asked: _Asked, spool: Spool) -> Done:
        caller = asked.caller
        is_task = caller.kind == "task"
        place = partial(self.admission.place, caller.name, is_task=is_task)
        # Nobody sits before a task's screen.
        async with place(may_be_quick=not is_task) as is_quick:
            if not is_quick:
                return await self._run_as(caller, asked, spool, self.pool.limits.grace_s)
            done = await self._run_quickly(asked, spool)
        if done is not None:
            return done
        spool.clear()
        async with place():
            return await self._run_as(caller, asked, spool, self.pool.limits.grace_s)

    async def _run_quickly(self, asked: _Asked, spool: Spool) -> Done | None:
        """None when it takes longer, and has to begin again where it may."""
        hurried = replace(asked.caller, timeout_s=min(QUICK_S, asked.caller.timeout_s))
        try:
            return await self._run_as(hurried, asked, spool, _QUICK_GRACE_S)
        except QueryTooLarge as error:
            if "timeout_s" not in error.facts:
                raise
            return None

    async def _run_as(self, caller: Caller, asked: _Asked, spool: Spool, grace_s: float) -> Done:
        # The time of the query: it does not count how long another's child takes to be replaced.
        async with self.pool.borrowed() as child, self._deadline(caller.timeout_s, grace_s):
            read = await resolved(child, asked.request, caller, self.sources)
            asked.relations = read.relations
            done = await run_query(child, asked.request, caller, read, self.sources, spool)
            asked.masked = done.masked
            return done

    @asynccontextmanager
    async def _deadline(self, timeout_s: float, grace_s: float) -> AsyncIterator[None]:
        """One for all of it: a child that is busy beyond is killed."""
        try:
            async with asyncio.timeout(timeout_s + grace_s):
                yield
        except TimeoutError:
            raise timed_out(timeout_s) from None
        except QueryTooLarge as error:
            if "timeout_s" not in error.facts:
                raise
            # The child was given what was left of it.
            raise timed_out(timeout_s) from None

    async def _answered(self, asked: _Asked, record: QueryRecord) -> None:
        """Personal columns are shown to nobody before that is on record."""
        if record.pii:
            await self.history.record(record)
        else:
            self.history.add(record)
        log.info("query", rows=record.row_count, bytes=record.bytes, **asked.audit())
        self._count(asked, "answered", record.row_count, record.bytes)

    async def _refused(self, asked: _Asked, code: str) -> None:
        """The text of an error may hold what the statement computed: it is on record before
        anybody sees it, like rows."""
        record = asked.record(0, 0, code)
        if record.pii:
            await self.history.record(record)
        self._ended(asked, code, is_recorded=bool(record.pii))

    def _ended(self, asked: _Asked, code: str, *, is_recorded: bool = False) -> None:
        # One that found no place was not even begun.
        if not is_recorded and code != TooManyQueries.code:
            self.history.add(asked.record(0, 0, code))
        log.info("query_refused", code=code, **asked.audit())
        self._count(asked, code, 0, 0)

    def _count(self, asked: _Asked, outcome: str, rows: int, size: int) -> None:
        self.metrics.ended(asked.caller.kind, outcome, asked.elapsed_ms / 1000, rows, size)


class _Asked:
    """One query on its way."""

    def __init__(self, caller: Caller, request: QueryRequest) -> None:
        self.caller, self.request = caller, request
        self.query_id: UUID = request.query_id or uuid4()
        # The statement itself may hold data: only its hash is kept.
        self.sql_sha256 = hashlib.sha256(request.sql.encode()).hexdigest()
        self.relations: list[Resolved] = []
        # By view, once it ran: columns that were there and not shown.
        self.masked: dict[str, list[str]] = {}
        self._started_at, self._started = datetime.now(UTC), time.perf_counter()

    @property
    def elapsed_ms(self) -> float:
        return round((time.perf_counter() - self._started) * 1000, 3)

    @property
    def read(self) -> list[Resolved]:
        """Each generation once, or once for each moment of it that the statement reads."""
        return list({(each.version, each.dataset.at): each for each in self.relations}.values())

    def _used(self, each: Resolved, name: str) -> UsedDataset:
        return each.used(name, self.masked.get(each.reference.view, each.masked))

    def facts(self, done: Done) -> QueryFacts:
        return QueryFacts(
            query_id=self.query_id,
            columns=[QueryColumn(name=c.name, type=c.type) for c in done.columns],
            row_count=done.row_count,
            truncated=done.truncated,
            elapsed_ms=self.elapsed_ms,
            datasets=[self._used(each, each.name) for each in self.read],
        )

    def record(self, rows: int, size: int, error: str | None = None) -> QueryRecord:
        """Of the datasets, not of the names that the statement has for them."""
        shown: dict[str, set[str]] = {}
        for each in self.relations:
            if each.shown_pii:
                shown.setdefault(each.dataset.label, set()).update(each.shown_pii)
        return QueryRecord(
            query_id=self.query_id,
            caller=self.caller.name,
            kind=self.caller.kind,
            sql_sha256=self.sql_sha256,
            format=self.request.format,
            datasets=[self._used(each, each.dataset.label) for each in self.read],
            pii={name: sorted(columns) for name, columns in shown.items()},
            row_count=rows,
            bytes=size,
            elapsed_ms=self.elapsed_ms,
            started_at=self._started_at,
            error=error,
        )

    def audit(self) -> dict[str, object]:
        return {
            "query_id": str(self.query_id),
            "caller": self.caller.name,
            "sql_sha256": self.sql_sha256,
            "datasets": [each.dataset.label for each in self.read],
            "elapsed_ms": self.elapsed_ms,
        }
