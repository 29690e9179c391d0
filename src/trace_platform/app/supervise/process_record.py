"""What is known of a running process on disk, enough to find it again after the supervisor died."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from trace_platform.app.instance.home import Home


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """`start_ticks` tells the process from a later one that got the same pid."""

    name: str
    pid: int
    start_ticks: int
    pgid: int
    command: list[str]
    stop_signal: int
    started_at: float
    restarts: int

    def alive(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks


def write_record(home: Home, record: ProcessRecord) -> None:
    """With the home itself: in a copy of it, it is nobody's."""
    path = home.run / f"{record.name}.json"
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps({"home": str(home.root), **asdict(record)}))
    partial.replace(path)


def read_records(home: Home) -> list[ProcessRecord]:
    """Oldest first. A file that cannot be read is no record."""
    found = []
    for path in (home.root / "run").glob("*.json"):
        with suppress(OSError, ValueError, TypeError):
            content = json.loads(path.read_text())
            if os.path.samefile(content.pop("home", home.root), home.root):
                found.append(ProcessRecord(**content))
    return sorted(found, key=lambda record: record.started_at)


def start_ticks(pid: int) -> int | None:
    """When the process started, in ticks since boot; None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, ticks = fields[0], int(fields[19])
    return None if state in "ZX" else ticks


def session_members(home: Home, leader: int) -> list[psutil.Process]:
    """What a process we started left running: all of its session that carries our mark.

    The session and not the process group: Spark's Python daemon makes a group of its own.
    """
    return [each for each in psutil.process_iter() if _belongs(each, home, leader)]


def _belongs(process: psutil.Process, home: Home, leader: int) -> bool:
    try:
        if os.getsid(process.pid) != leader:
            return False
        return process.environ().get("TRACE_HOME") == str(home.root)
    except (psutil.Error, OSError):
        return False


def end_leftovers(home: Home, grace_s: float = 15.0) -> list[str]:
    """Stop what a killed supervisor left behind, newest first. Returns the names it stopped."""
    ended = []
    for record in reversed(read_records(home)):
        leader = _leader(record)
        if not (leader or session_members(home, record.pid)):
            continue
        # A leader ends its own children. Without one they have nothing to finish.
        _send(leader, signal.Signals(record.stop_signal))
        _wait_gone(leader, grace_s)
        kill_session(home, record.pid, leader)
        ended.append(record.name)
    return ended


def _leader(record: ProcessRecord) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(record.pid)
        return [found] if record.alive() else []
    return []


def kill_session(home: Home, leader: int, also: Iterable[psutil.Process] = ()) -> None:
    """SIGKILL, again and again for a while: a dying process may still fork."""
    for _ in range(50):
        members = [*session_members(home, leader), *filter(_runs, also)]
        if not members:
            return
        _send(members, signal.SIGKILL)
        _wait_gone(members, 0.5)
        # One that is dying has no environment any more by which it is known.
        also = members


def _send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _wait_gone(processes: Iterable[psutil.Process], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while any(map(_runs, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)


def _runs(process: psutil.Process) -> bool:
    # Not psutil's own test: a zombie that nobody reaps would count as running for ever.
    return start_ticks(process.pid) is not None
