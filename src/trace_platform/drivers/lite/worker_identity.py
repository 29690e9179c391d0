"""The identity that a worker has from a file: whoever holds the file's lock is that worker, and
those who held it before have ended."""

from __future__ import annotations

import json
import os
import secrets
from itertools import count
from pathlib import Path

from trace_platform.domain.worker_identity import WorkerIdentity
from trace_platform.drivers.lite.file_lock import hold_for_good


def take_identity(folder: Path, host: str) -> WorkerIdentity:
    """The first one in this folder that no other process has; a new one when all are taken. It is
    this process's own until it ends."""
    for number in count(1):
        file = hold_for_good(folder / f"{number}.json")
        if file is not None:
            return _next_incarnation(file, host)
    raise AssertionError("count has no end")


def _next_incarnation(file: int, host: str) -> WorkerIdentity:
    name, before = _read(file) or (f"lite:{host}-{secrets.token_hex(4)}", 0)
    identity = WorkerIdentity(name, before + 1, os.getpid())
    # Of a copied home the file is another one: two workers that run at once are never the same.
    told = {"name": name, "incarnation": identity.incarnation, "inode": os.fstat(file).st_ino}
    # What a crash leaves half-written is no identity, and a new one is made.
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(told).encode(), 0)
    os.fsync(file)
    return identity


def _read(file: int) -> tuple[str, int] | None:
    try:
        told = json.loads(os.pread(file, 4096, 0))
        if told["inode"] == os.fstat(file).st_ino:
            return str(told["name"]), int(told["incarnation"])
    except (ValueError, KeyError, TypeError):
        pass
    return None
