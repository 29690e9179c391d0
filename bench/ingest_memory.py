"""What our side of an ingest holds at its peak, by the kernel's own account."""

from __future__ import annotations

import contextlib
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.harness import Bench
from bench.replay import replaying
from bench.subject import Subject

SMALL, LARGE = 1_000, 50_000
_TXS = 20
_SUBJECT = "bench.subjects.cryo_ingest"
_SAMPLE_S = 0.05
_MB = 2**20


@dataclass(frozen=True, slots=True)
class Peaks:
    all_mb: float  # of the session's process, the JVM and the Python workers at one time
    workers_mb: float  # of each Python worker at any time, added up


def peaks(bench: Bench, blocks: int) -> Peaks:
    """Of one range of so many blocks, in a session of its own: a peak is never forgotten."""
    workspace = bench.workspace / str(blocks)
    workspace.mkdir()
    with (
        replaying(blocks, _TXS, workspace / "replay.log", prebuild=False) as replay,
        Subject(
            *("cryo_ingest", sys.executable, _SUBJECT, replay.url, str(workspace / "scratch")),
            log=workspace / "subject.log",
        ) as subject,
        _Watch(_running()) as watch,
    ):
        subject.run(start=1, end=blocks, output=str(workspace / "output"))
        return Peaks(watch.peak_bytes / _MB, watch.workers_bytes() / _MB)


def _running() -> psutil.Process:
    """The subject's process."""
    return next(p for p in psutil.Process().children() if _SUBJECT in p.cmdline())


class _Watch:
    """Adds up what the process and its descendants hold, twenty times a second."""

    def __init__(self, root: psutil.Process) -> None:
        self._root = root
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.peak_bytes = 0

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def workers_bytes(self) -> int:
        """By the kernel's high-water marks: workers stay for the next task, and so do theirs."""
        children = self._root.children(recursive=True)
        return sum(_high_water_bytes(child.pid) for child in children if _is_worker(child))

    def _look(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, self._now())

    def _now(self) -> int:
        total = 0
        for process in [self._root, *self._root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total


def _is_worker(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):  # or a zombie
        return "pyspark.daemon" in process.cmdline()
    return False


def _high_water_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
