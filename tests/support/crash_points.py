"""Named points of the write path of a worker, at which a test has something die.

A point is a line of the file `kill_at` in the worker's home, `POINT VICTIM`: the victim is the
`worker` itself or the `jvm` of its Spark. The points that were reached are in the file `points`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.spark.session_record import read_session_record
from trace_platform.wire.manifest import MANIFEST_NAME, SUCCESS_NAME

# In their order. A point before a write is the point after the one that precedes it.
HALF_A_FILE = "file:half"
BEFORE_MANIFEST = "manifest:before"
BEFORE_SUCCESS = "success:before"
BEFORE_COMPLETION = "completion:before"
REPLY_LOST = "completion:after"
POINTS = (HALF_A_FILE, BEFORE_MANIFEST, BEFORE_SUCCESS, BEFORE_COMPLETION, REPLY_LOST)
# Of a rewrite of hot tables, what it owes to the Dispatcher, and of a trim.
ROWS_NOT_COMMITTED = "rewrite:before_commit"
NOT_ANNOUNCED = "rewrite:after_commit"
NOT_MARKED_SENT = "announce:after"
MARKED_SENT = "sent:after"
HOT_POINTS = (ROWS_NOT_COMMITTED, NOT_ANNOUNCED, NOT_MARKED_SENT, MARKED_SENT)


@dataclass(frozen=True)
class CrashPoints:
    home: Path

    def arm(self, point: str, victim: str = "worker") -> None:
        partial = self.home / "kill_at.partial"
        partial.write_text(f"{point} {victim}")
        partial.rename(self._armed)

    @property
    def is_armed(self) -> bool:
        """Whether the point was not reached yet."""
        return self._armed.exists()

    def count(self, point: str) -> int:
        """How often it was reached."""
        return (self.home / "points").read_text().split().count(point)

    def reach(self, point: str) -> None:
        with (self.home / "points").open("a") as log:
            log.write(f"{point}\n")
        victim = self._take(point)
        if victim == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif victim == "jvm":
            self._kill_jvm()

    def is_due(self, point: str) -> bool:
        try:
            return self._armed.read_text().split()[0] == point
        except FileNotFoundError:
            return False

    def _take(self, point: str) -> str | None:
        if not self.is_due(point):
            return None
        victim = self._armed.read_text().split()[1]
        self._armed.unlink()
        return victim

    def _kill_jvm(self) -> None:
        record = read_session_record(self.home / "spark")
        assert record is not None
        assert record.pid is not None
        os.kill(record.pid, signal.SIGKILL)
        # Its parent is this process, which reaps it when it next looks: a zombie is dead enough.
        while "\nState:\tZ" not in Path(f"/proc/{record.pid}/status").read_text():
            time.sleep(0.01)

    @property
    def _armed(self) -> Path:
        return self.home / "kill_at"


@dataclass(frozen=True, slots=True)
class CrashingStore(LocalStore):
    """A store that reaches the points of staged files. Executors get a copy, and reach none: they
    write through `filesystem`."""

    home: str = ""

    def put(self, uri: str, body: bytes) -> None:
        points, name = CrashPoints(Path(self.home)), uri.rpartition("/")[2]
        if name == MANIFEST_NAME:
            points.reach(BEFORE_MANIFEST)
        elif name == SUCCESS_NAME:
            points.reach(BEFORE_SUCCESS)
        elif name.endswith(".parquet"):
            if points.is_due(HALF_A_FILE):
                self._put_half(uri, body)
            points.reach(HALF_A_FILE)
        LocalStore.put(self, uri, body)

    def _put_half(self, uri: str, body: bytes) -> None:
        """As a stream leaves it: under its name, and short."""
        _, path = self.filesystem(uri)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(body[: len(body) // 2])


def crash_at_completions(client: Any, points: CrashPoints) -> None:
    """Of a class of clients: completions that commit something reach their points."""
    complete = client.complete

    def crashing(self: Any, requests: Sequence[Any]) -> Any:
        commits = any(request.outputs for request in requests)
        if commits:
            points.reach(BEFORE_COMPLETION)
        answers = complete(self, requests)
        if commits:
            points.reach(REPLY_LOST)
        return answers

    client.complete = crashing


def crash_at_hot_writes(writer: Any, client: Any, points: CrashPoints) -> None:
    """Of the classes of hot writers and of clients that announce what those wrote."""
    reach_after(writer, "_keep_hashes", points, ROWS_NOT_COMMITTED)  # the last of its statements
    reach_after(writer, "rewrite", points, NOT_ANNOUNCED)
    reach_after(client, "emit", points, NOT_MARKED_SENT)
    reach_after(writer, "sent", points, MARKED_SENT)


def reach_after(owner: Any, name: str, points: CrashPoints, point: str) -> None:
    plain = getattr(owner, name)

    def reaching(*args: Any, **named: Any) -> Any:
        found = plain(*args, **named)
        points.reach(point)
        return found

    setattr(owner, name, reaching)
