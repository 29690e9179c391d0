"""Checks statements in a process of their own: confined, with little time and memory, and gone when
the last one is answered."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from types import TracebackType

import msgspec

from trace_platform.domain.errors import Unavailable
from trace_platform.sql.checks import (
    CPU_S,
    MEMORY_MB,
    READY,
    Answer,
    Problem,
    Question,
    decode_answer,
    encode,
)

# A statement whose process used up its time or memory.
TOO_MUCH = Problem(
    said=f"the statement takes more than {CPU_S:g} s or {MEMORY_MB} MiB to be read: write it with"
    " fewer or smaller constants"
)
# Of the clock: a busy machine is no fault of the statement's.
_ANSWER_S = 60.0
_MOST_BYTES = 4 << 20
_REMEMBERED = 128
# glibc gives every thread 64 MiB of address space otherwise, which a limit on it would count.
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}

_remembered: OrderedDict[bytes, Answer] = OrderedDict()
_remembering = threading.Lock()


class Checker:
    """Answers questions about statements; its process starts with the first one. What a process
    ends at is said of the statement: another one answers the next."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Checker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def answer(self, question: Question) -> Answer:
        """The same question has the same answer. Raise Unavailable when the machine has no time
        for it."""
        asked = encode(question)
        with _remembering:
            known = _remembered.get(asked)
        if known is None:
            known = self._asked(asked)
            if TOO_MUCH in known.problems:
                # Of a process that ended nobody knows whose fault it was.
                return known
            with _remembering:
                _remembered[asked] = known
                while len(_remembered) > _REMEMBERED:
                    _remembered.popitem(last=False)
        return known

    def _asked(self, asked: bytes) -> Answer:
        said = self._line(self._started(), asked + b"\n")
        if said.endswith(b"\n"):
            with contextlib.suppress(msgspec.DecodeError):
                return decode_answer(said)
        self._end()
        return Answer(problems=[TOO_MUCH])

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        self._scratch = tempfile.TemporaryDirectory(prefix="trace-sql-")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-m", "trace_platform.sql.checking", self._scratch.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
        if self._line(self._process, b"") != READY:
            self._end()
            raise Unavailable("the process that checks SQL did not start", hint="try again")
        return self._process

    def _line(self, process: subprocess.Popen[bytes], said: bytes) -> bytes:
        """Its next line. Raise Unavailable, when it is gone, for one that comes too late."""
        try:
            return _exchange(process, said)
        except Unavailable:
            self._end()
            raise

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):
                    pipe.close()
            self._process.wait()
            self._process = None
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None


def _exchange(process: subprocess.Popen[bytes], said: bytes) -> bytes:
    """The next line that it says; what there is of it when it ends. Raise Unavailable when it has
    none in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(_ANSWER_S, give_up)
    timer.daemon = True
    timer.start()
    answer = b""
    try:
        with contextlib.suppress(OSError):
            process.stdin.write(said)
            process.stdin.flush()
            answer = process.stdout.readline(_MOST_BYTES)
    finally:
        timer.cancel()
    if late.is_set():
        raise Unavailable(
            "the SQL of the DAG could not be checked in time", hint="try again in a minute"
        )
    return answer
