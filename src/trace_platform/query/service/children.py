"""A pool of child processes: every query runs in one, and one that misbehaves is killed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from trace_platform.domain import errors
from trace_platform.domain.errors import QueryTooLarge, SetupError, TraceError, Unavailable
from trace_platform.query.protocol.messages import (
    CHUNK,
    HEADER_BYTES,
    Check,
    Checked,
    Done,
    Limits,
    Plan,
    Planned,
    Ready,
    Refused,
    Reply,
    Request,
    Run,
    Setup,
    decode_reply,
    frame,
)
from trace_platform.query.protocol.timed_out import timed_out

log = structlog.get_logger()

# glibc gives every thread 64 MiB of address space otherwise, which RLIMIT_AS would count.
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
_START_S = 30.0
_RESTART_PAUSE_S = 1.0
_READY_S = 10.0
# Memory fragments with use: a child makes room for a new one now and then.
_QUERIES_PER_CHILD = 500
_PIPE_BYTES = 1 << 20
_NOTED_BYTES = 1 << 16
_LAST_WORDS_S = 1.0

R = TypeVar("R", Checked, Planned, Done)
Sink = Callable[[bytes], None]


class ChildDied(Exception):
    """The child closed its pipe: killed by a limit, by the kernel, or by us."""


class Child:
    """One process and the two pipes to it. Every answer has a deadline; past it, SIGKILL."""

    def __init__(self, process: asyncio.subprocess.Process, limits: Limits, scratch: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._limits = process, limits
        self._requests, self._replies = process.stdin, process.stdout
        self._listening = asyncio.create_task(_log_words(process.stderr, process.pid))
        self.scratch = scratch
        self.queries = 0
        self.fit = True

    @classmethod
    async def start(cls, limits: Limits, readable: Sequence[str], scratch: Path) -> Child:
        own = Path(tempfile.mkdtemp(prefix="child-", dir=scratch))
        setup = Setup(limits=limits, readable=list(readable), scratch=str(own))
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-m",
                "trace_platform.query.child.main",
                msgspec.json.encode(setup).decode(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # Not our own, which is a file of the log: who has it open can empty it.
                stderr=asyncio.subprocess.PIPE,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
                limit=_PIPE_BYTES,
            )
        except BaseException:
            shutil.rmtree(own, ignore_errors=True)
            raise
        child = cls(process, limits, own)
        try:
            async with asyncio.timeout(_START_S):
                ready = isinstance(await child._receive(_ignored), Ready)
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

    async def check(self, sql: str) -> Checked:
        return await self._ask(Check(sql), Checked, self._limits.timeout_s)

    async def plan(self, request: Plan) -> Planned:
        return await self._ask(request, Planned, self._limits.timeout_s)

    async def run(self, request: Run, sink: Sink) -> Done:
        """What of the result comes goes to `sink`; a sink that raises ends the query."""
        return await self._ask(request, Done, request.timeout_s, sink)

    async def kill(self) -> None:
        self.fit = False
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._requests.close()
        await self._process.wait()
        # Its last words. Not for ever: what else has the pipe open is not known.
        await asyncio.wait([self._listening], timeout=_LAST_WORDS_S)
        self._listening.cancel()
        await asyncio.to_thread(shutil.rmtree, self.scratch, ignore_errors=True)

    async def _ask(
        self, request: Request, expected: type[R], timeout_s: float, sink: Sink | None = None
    ) -> R:
        """The answer, or the error that it names. Anything but a clean answer ends the child."""
        self.fit = False
        reply = await self._exchange(request, expected, timeout_s, sink or _ignored)
        self.fit = not (reply.retire if isinstance(reply, Refused) else _is_spent(reply))
        if isinstance(reply, Refused):
            kind = errors.subclasses().get(reply.code, TraceError)
            raise kind(reply.message, hint=reply.hint, **reply.facts)
        return reply

    async def _exchange(
        self, request: Request, expected: type[R], timeout_s: float, sink: Sink
    ) -> R | Refused:
        try:
            async with asyncio.timeout(timeout_s + self._limits.grace_s):
                self._requests.write(frame(request))
                await self._requests.drain()
                reply = await self._receive(sink)
            if isinstance(reply, expected | Refused):
                return reply
            raise ChildDied
        except TimeoutError:
            raise timed_out(timeout_s) from None
        except (ChildDied, ConnectionError):
            raise QueryTooLarge(
                "the query used more memory or CPU time than one may and was stopped",
                hint="read fewer rows or columns, or aggregate in steps",
            ) from None

    async def _receive(self, sink: Sink) -> Reply:
        """The next message; the chunks before it go to `sink`."""
        try:
            while True:
                header = await self._replies.readexactly(HEADER_BYTES)
                size = int.from_bytes(header[1:], "big")
                if size > 2 * self._limits.page_bytes:
                    raise ChildDied
                body = await self._replies.readexactly(size)
                if header[:1] != CHUNK:
                    return decode_reply(body)
                sink(body)
        except (asyncio.IncompleteReadError, msgspec.DecodeError) as error:
            raise ChildDied from error


class ChildPool:
    """So many warm children. Whoever borrows one has it alone."""

    def __init__(
        self, size: int, limits: Limits, *, readable: Sequence[str], scratch: Path
    ) -> None:
        """The children read files below `readable`, and write only below `scratch`."""
        self.limits, self.size = limits, size
        self._readable, self._scratch = readable, scratch
        self._idle: asyncio.Queue[Child] = asyncio.Queue()
        self._children: set[Child] = set()
        self._replacing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Return when every child is warm."""
        for left in self._scratch.glob("child-*"):
            await asyncio.to_thread(shutil.rmtree, left, ignore_errors=True)
        for child in await asyncio.gather(*(self._new_child() for _ in range(self.size))):
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

    @contextlib.asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Child]:
        """Leaving it in the middle of an answer kills the child. Raise Unavailable when none is
        ready in time."""
        try:
            async with asyncio.timeout(_READY_S):
                while not (child := await self._idle.get()).alive:
                    self._replace(child)
        except TimeoutError:
            raise Unavailable(
                "no query process is ready", hint="try again; the query part's log says why"
            ) from None
        try:
            yield child
        finally:
            child.queries += 1
            if child.alive and child.queries < _QUERIES_PER_CHILD:
                self._idle.put_nowait(child)
            else:
                self._replace(child)

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
                self._add(await self._new_child())
                return
            except Exception as error:
                # Whatever it is: a place without a child would be one for ever.
                log.warning("query_child_did_not_start", error=str(error))
                await asyncio.sleep(_RESTART_PAUSE_S)

    async def _new_child(self) -> Child:
        return await Child.start(self.limits, self._readable, self._scratch)

    def _add(self, child: Child) -> None:
        self._children.add(child)
        self._idle.put_nowait(child)


async def _log_words(said: asyncio.StreamReader, pid: int) -> None:
    """What a child writes to its standard error, the last words of one that crashes above all. It
    may say as much as it likes, but we note the beginning alone."""
    left = _NOTED_BYTES
    while words := await said.read(_NOTED_BYTES):
        if left:
            text = words[:left].decode(errors="replace")
            log.warning("query_child_said", pid=pid, text=text)
            left -= len(words[:left])


def _is_spent(reply: Reply) -> bool:
    return isinstance(reply, Done) and reply.spent


def _ignored(_: bytes) -> None:
    raise ChildDied
