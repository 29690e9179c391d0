"""Processes that somebody else keeps running: `trace serve NAME` under a supervisor of one's own.

Each notes in the home that it runs and whether it is ready. What `trace up` runs is not among them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from trace_platform.app.instance.home import Home
from trace_platform.app.supervise.process_record import read_records, start_ticks
from trace_platform.app.supervise.ready import mark_ready
from trace_platform.app.supervise.supervisor import supervisor_pid


@dataclass(frozen=True, slots=True)
class ServedProcess:
    """`start_ticks` tells the process from a later one that got the same pid."""

    name: str
    pid: int
    start_ticks: int
    started_at: float
    is_ready: bool = False

    def alive(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks


@contextmanager
def served(home: Home, name: str) -> Iterator[None]:
    """While the block runs. A process that failed stays noted until it is started again."""
    if os.getppid() == supervisor_pid(home):
        yield
        return
    for each in read_served(home):
        if each.name == name and not each.alive():
            _file(home, each).unlink(missing_ok=True)
    own = ServedProcess(name, os.getpid(), start_ticks(os.getpid()) or 0, time.time())
    _write(home, own)
    has_failed = True
    try:
        yield
        has_failed = False
    except (KeyboardInterrupt, SystemExit):
        has_failed = False
        raise
    finally:
        if not has_failed:
            _file(home, own).unlink(missing_ok=True)


def tell_ready(home: Home, name: str) -> None:
    """That this process serves. The mark of one that `trace up` runs beside it is left alone."""
    own = next((each for each in read_served(home) if each.pid == os.getpid()), None)
    if own is not None:
        _write(home, replace(own, is_ready=True))
        if any(each.name == name and each.alive() for each in read_records(home)):
            return
    mark_ready(home, name)


def read_served(home: Home) -> list[ServedProcess]:
    """Oldest first. A file that cannot be read is none, nor is that of a home that was copied."""
    found = []
    for path in (home.root / "run").glob("*.served"):
        with suppress(OSError, ValueError, TypeError):
            content = json.loads(path.read_text())
            if os.path.samefile(content.pop("home"), home.root):
                found.append(ServedProcess(**content))
    return sorted(found, key=lambda each: each.started_at)


def _write(home: Home, process: ServedProcess) -> None:
    path = _file(home, process)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps({"home": str(home.root), **asdict(process)}))
    partial.replace(path)


def _file(home: Home, process: ServedProcess) -> Path:
    return home.run / f"{process.name}.{process.pid}.served"
