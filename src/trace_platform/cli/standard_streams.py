"""The command's own streams: an output that is closed, full or read no further has an end of its
own, which no library takes for a fault of something else."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

from trace_platform.domain.errors import OutputUnwritable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# As a shell tells of a program that wrote to a pipe which nobody reads any more: 128 + SIGPIPE.
EXIT_NOT_READ = 141


def guard_streams() -> None:
    """Once, before the command."""
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        return  # somebody took their place, and is asked no questions
    _open_closed()
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Notes(2, "w", closefd=False), sys.stderr)


def discard_output() -> None:
    """What is not written yet stays so, also at the end of the process."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Output):
        raw.is_lost = True


def _open_closed() -> None:
    """Else the next file that anybody opens is taken for the stream. What was closed has nothing to
    read, and cannot be written; notes are for nobody then."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(
                os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY), True
            )


def _text(raw: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    """As Python made it; but what an encoding has no letters for is no reason to stop."""
    was = before if isinstance(before, io.TextIOWrapper) else None
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=was.encoding if was else "utf-8",
        errors="backslashreplace",
        line_buffering=was.line_buffering if was else False,
        write_through=was.write_through if was else False,
    )


class _Output(io.FileIO):
    is_lost = False

    def write(self, data: ReadableBuffer, /) -> int:
        if self.is_lost:
            return memoryview(data).nbytes
        try:
            # None: whoever shares it made it non-blocking, and it takes nothing just now.
            while (written := super().write(data)) is None:
                select.select([], [self], [])
            return written
        except BrokenPipeError:
            self.is_lost = True
            raise SystemExit(EXIT_NOT_READ) from None
        except OSError as error:
            raise OutputUnwritable(
                f"the standard output cannot be written: {error.strerror or error}",
                hint="see where it is redirected to, and whether there is space",
            ) from None


class _Notes(io.FileIO):
    """Nobody can be told that nobody can be told."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes
