"""Locks between processes: files that one holds at a time, and nobody waits for in silence."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from trace_platform.domain.errors import SetupError

WAIT_S = 10.0
_POLL_S = 0.02


@contextmanager
def locked(path: Path, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the lock of this file, which is made, or of this folder. It ends with the process.

    Raise SetupError that names the file, and who holds it, when it is not free in time.
    """
    flags = os.O_DIRECTORY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    try:
        _take(descriptor, path, wait_s)
        yield
    finally:
        os.close(descriptor)


def hold_for_good(path: Path) -> int | None:
    """The lock of this file, which is made, until the process ends; None when another has it. The
    open file, to read and to write it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    if _try(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _take(descriptor: int, path: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not _try(descriptor):
        if time.monotonic() > deadline:
            raise held_too_long(path)
        time.sleep(_POLL_S)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def held_too_long(path: Path) -> SetupError:
    pid = holder_of(path)
    return SetupError(
        f"{path} is locked by {_described(pid)}",
        hint="wait until that process is done, or end it",
        path=str(path),
        pid=pid,
    )


def holder_of(path: Path) -> int | None:
    """Who took the lock of that file, as far as the kernel tells it here."""
    try:
        found = path.stat()
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    for line in lines:
        # "3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"; who waits has an arrow before FLOCK.
        _, kind, _, _, pid, place, *_ = line.split()
        if kind == "FLOCK" and place == f"{device}:{found.st_ino}":
            return int(pid) if int(pid) > 0 else None  # not of a process that we can see
    return None


def _described(pid: int | None) -> str:
    if pid is None:
        return "another process"
    try:
        process = psutil.Process(pid)
        return f"pid {pid} ({process.name()}, user {process.username()})"
    except psutil.Error:
        return f"pid {pid}"
