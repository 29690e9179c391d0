"""A pool of child processes: every query runs in one, and one that misbehaves is killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
import structlog

from trace_platform.domain import errors
from trace_platform.domain.errors import InvalidQuery, SetupError, TraceError, Unavailable
from trace_platform.query.engine import no_data, timed_out
from trace_platform.query.messages import (
    HEADER_BYTES,
    Answer,
    Check,
    Checked,
    Limits,
    Ready,
    Refused,
    Reply,
    Request,
    Run,
    decode_reply,
    frame,
)
from trace_platform.wire.query import ResolvedDataset

log = structlog.get_logger()

# glibc gives every thread 64 MiB of address space otherwise, which RLIMIT_AS would count.
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
_START_S = 30.0
_RESTART_PAUSE_S = 1.0
# Memory fragments with use: a child makes room for a new one now and then.
_QUERIES_PER_CHILD = 500

R = TypeVar("R", Checked, Answer)
Locate = Callable[[ResolvedDataset], Sequence[str]]


class ChildDied(Exception):
    """The child closed its pipe: killed by a limit, by the kernel, or by us."""


class Child:
    """One process and the two pipes to it. Every answer has a deadline; past it, SIGKILL."""

    def __init__(self, process: asyncio.subprocess.Process, limits: Limits) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._limits = process, limits
        self._requests, self._replies = process.stdin, process.stdout
        self.queries = 0
        self.fit = True

    @classmethod
    async def start(cls, limits: Limits) -> Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            "trace_platform.query.child",
            msgspec.json.encode(limits).decode(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
        child = cls(process, limits)
        try:
            async with asyncio.timeout(_START_S):
                ready = isinstance(await child._receive(), Ready)
        except (TimeoutError, ChildDied):
            ready = False
        except BaseException:
            await child.kill()
            raise
        if not ready:
            await child.kill()
            raise SetupError("a query process did not start", hint="see the log of the query part")
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self.fit and self._process.returncode is None

    async def ask(self, request: Request, expected: type[R]) -> R:
        """The answer, or the error that it names. Anything but a clean answer ends the child."""
        self.fit = False
        reply = await self._exchange(request, expected)
        self.fit = not (isinstance(reply, Refused) and reply.retire)
        if isinstance(reply, Refused):
            kind = errors.subclasses().get(reply.code, TraceError)
            raise kind(reply.message, hint=reply.hint, **reply.facts)
        return reply

    async def _exchange(self, request: Request, expected: type[R]) -> R | Refused:
        try:
            async with asyncio.timeout(self._limits.timeout_s + self._limits.grace_s):
                self._requests.write(frame(request))
                await self._requests.drain()
                reply = await self._receive()
            if isinstance(reply, expected | Refused):
                return reply
            raise ChildDied
        except TimeoutError:
            raise timed_out(self._limits) from None
        except (ChildDied, ConnectionError):
            raise InvalidQuery(
                "the query used more memory or CPU time than one may and was stopped",
                hint="read fewer rows or columns, or aggregate in steps",
            ) from None

    async def _receive(self) -> Reply:
        try:
            size = int.from_bytes(await self._replies.readexactly(HEADER_BYTES), "big")
            if size > 2 * self._limits.result_bytes:
                raise ChildDied
            return decode_reply(await self._replies.readexactly(size))
        except (asyncio.IncompleteReadError, msgspec.DecodeError) as error:
            raise ChildDied from error

    async def kill(self) -> None:
        self.fit = False
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._requests.close()
        await self._process.wait()


class ChildPool:
    """At most `size` queries at once; a few more wait for a moment, the rest are told to retry."""

    def __init__(
        self,
        size: int = 2,
        limits: Limits | None = None,
        *,
        max_waiting: int = 16,
        max_wait_s: float = 10.0,
    ) -> None:
        self.limits = limits or Limits()
        self._size, self._max_waiting, self._max_wait_s = size, max_waiting, max_wait_s
        self._idle: asyncio.Queue[Child] = asyncio.Queue()
        self._children: set[Child] = set()
        self._replacing: set[asyncio.Task[None]] = set()
        self._waiting = 0

    async def start(self) -> None:
        """Return when every child is warm."""
        for child in await asyncio.gather(*(Child.start(self.limits) for _ in range(self._size))):
            self._add(child)

    async def close(self) -> None:
        for task in self._replacing:
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        await asyncio.gather(*(child.kill() for child in self._children))
        self._children.clear()

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._children]

    async def run(
        self, sql: str, limit: int, published: Mapping[str, ResolvedDataset], locate: Locate
    ) -> tuple[Answer, list[str]]:
        """The rows, and the datasets they came from. Cancelling it stops the query."""
        async with self._borrowed() as child:
            checked = await child.ask(Check(sql, sorted(published)), Checked)
            datasets = [published[name] for name in checked.datasets]
            for dataset in datasets:
                if not dataset.files:
                    raise no_data(dataset.name)
            tables = {dataset.name: list(locate(dataset)) for dataset in datasets}
            return await child.ask(Run(tables, limit), Answer), checked.datasets

    @contextlib.asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[Child]:
        child = await self._acquire()
        try:
            yield child
        finally:
            child.queries += 1
            if child.alive and child.queries < _QUERIES_PER_CHILD:
                self._idle.put_nowait(child)
            else:
                self._replace(child)

    async def _acquire(self) -> Child:
        if self._idle.empty() and self._waiting >= self._max_waiting:
            raise self._busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._max_wait_s):
                while not (child := await self._idle.get()).alive:
                    self._replace(child)
                return child
        except TimeoutError:
            raise self._busy() from None
        finally:
            self._waiting -= 1

    def _busy(self) -> Unavailable:
        return Unavailable(
            f"{self._size} queries are running and {self._waiting} are waiting",
            hint="try again in a few seconds",
        )

    def _replace(self, child: Child) -> None:
        """In the background: the caller's answer does not wait for a new process."""
        task = asyncio.create_task(self._start_another(child))
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    async def _start_another(self, child: Child) -> None:
        await child.kill()
        self._children.discard(child)
        while True:
            try:
                self._add(await Child.start(self.limits))
                return
            except (OSError, SetupError) as error:
                log.warning("query child did not start", error=str(error))
                await asyncio.sleep(_RESTART_PAUSE_S)

    def _add(self, child: Child) -> None:
        self._children.add(child)
        self._idle.put_nowait(child)
