"""Runs the processes of an instance: one supervisor per home."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TextIO

import structlog

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import check_port
from trace_platform.app.supervise.process import Keeper, ProcessSpec, Progress, Report
from trace_platform.app.supervise.process_record import end_leftovers, start_ticks
from trace_platform.domain.errors import Conflict, SetupError
from trace_platform.drivers.lite.file_lock import held_too_long, holder_of

log = structlog.get_logger(__name__)

# Longer than anybody looks at the lock, or needs to write down who has it.
_LOCK_WAIT_S = 5.0
_STOPPING = "supervisor.stopping"


@dataclass(frozen=True, slots=True)
class Stage:
    """Processes that start together, and a step to take once all of them are ready."""

    processes: tuple[ProcessSpec, ...] = ()
    then: Callable[[], object] | None = None
    name: str = ""


class Supervisor:
    """Use it as a context: inside, all processes are ready; after it, none is left.

    The caller's thread is free meanwhile: each process has a thread that restarts it.
    """

    def __init__(self, home: Home, stages: Sequence[Stage], report: Report | None = None) -> None:
        self._home = home
        self._stages = stages
        self._report = _harmless(report)
        self._keepers: list[Keeper] = []
        self._lock: HomeLock | None = None

    def __enter__(self) -> Supervisor:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything in order. When a part cannot start, stop the others and say why."""
        self._lock = HomeLock.take(self._home)
        try:
            self._clean_up()
            self._check_ports()
            for stage in self._stages:
                self._run(stage)
        except BaseException:
            self.stop()
            raise
        log.info("instance_ready", home=str(self._home.root))

    def stop(self) -> None:
        """Stop all, last started first. Does nothing a second time."""
        if self._keepers:
            _stopping_mark(self._home).touch()
        while self._keepers:
            self._keepers.pop().stop()
        if self._lock:
            empty_run(self._home, self._lock)
            self._lock.release()
            self._lock = None
            log.info("instance_stopped", home=str(self._home.root))

    def _clean_up(self) -> None:
        for name in end_leftovers(self._home):
            log.warning("leftover_stopped", name=name)
            self._report(Progress(name, "stopped", "left over from a supervisor that was killed"))
        assert self._lock
        empty_run(self._home, self._lock)

    def _check_ports(self) -> None:
        for spec in (spec for stage in self._stages for spec in stage.processes):
            if spec.sweep:
                spec.sweep()  # what a crash left may still hold the port
            if spec.port is not None:
                check_port(spec.name, spec.port)

    def _run(self, stage: Stage) -> None:
        started = [Keeper(spec, self._home, self._report) for spec in stage.processes]
        for keeper in started:
            self._keepers.append(keeper)
            keeper.start()
        for keeper in started:
            keeper.wait_ready()
        if stage.then:
            self._report(Progress(stage.name, "starting"))
            stage.then()
            self._report(Progress(stage.name, "ready"))


def _harmless(report: Report | None) -> Report:
    """A closed terminal must not keep us from stopping the rest."""

    def tell(progress: Progress) -> None:
        if report:
            with suppress(Exception):
                report(progress)

    return tell


class HomeLock:
    """Held by the supervisor of a home. The kernel lets go of it when that process dies.

    The file says who that is: its pid, and when it started, since a pid is used again.
    """

    def __init__(self, path: Path, handle: TextIO) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def take(cls, home: Home) -> HomeLock:
        path = home.run / "supervisor.lock"
        deadline = time.monotonic() + _LOCK_WAIT_S
        while (handle := _try_lock(path)) is None:
            refuse_second(home)
            if time.monotonic() > deadline:
                raise held_too_long(path)
            time.sleep(0.02)  # someone only looked at the lock, or it changes hands
        handle.truncate(0)
        handle.write(f"{os.getpid()} {start_ticks(os.getpid())}")
        handle.flush()
        return cls(path, handle)

    def release(self) -> None:
        # Removed before it is let go: whoever has the old file open notices, and tries again.
        self.path.unlink(missing_ok=True)
        self._handle.close()


def refuse_second(home: Home) -> None:
    """Raise Conflict when an instance runs in this home."""
    pid = supervisor_pid(home)
    if pid:
        raise Conflict(
            f"an instance is already running in {home.root} (pid {pid})",
            hint="`trace status` shows it, `trace down` stops it",
            pid=pid,
        )


def supervisor_pid(home: Home) -> int | None:
    """The supervisor that holds the home's lock. None: nobody does, or somebody else."""
    path = home.root / "run" / "supervisor.lock"
    try:
        with path.open("r+") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return _living_supervisor(path)
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from None


def _living_supervisor(path: Path) -> int | None:
    """Who wrote the file. It is empty for the moment between taking the lock and writing, and what
    a killed supervisor wrote stays, whoever takes the lock after it."""
    try:
        pid, *started = map(int, path.read_text().split())
    except (OSError, ValueError):
        return None
    if not started:  # by a version that wrote its pid alone
        return pid if holder_of(path) == pid else None
    return pid if start_ticks(pid) == started[0] else None


def _try_lock(path: Path) -> TextIO | None:
    handle = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    if _is_at(handle, path):
        return handle
    handle.close()  # its holder removed the file in between
    return None


def _is_at(handle: TextIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


def is_stopping(home: Home) -> bool:
    """Whether the supervisor that runs is ending what it keeps."""
    return (home.root / "run" / _STOPPING).exists()


def _stopping_mark(home: Home) -> Path:
    return home.run / _STOPPING


def empty_run(home: Home, lock: HomeLock) -> None:
    """Forget marks and records; only who holds the lock may. What processes note of themselves that
    somebody else keeps running is theirs."""
    own = {path.name.split(".")[0] for path in home.run.glob("*.served")}
    for path in home.run.iterdir():
        is_theirs = path.suffix == ".served" or (path.suffix == ".ready" and path.stem in own)
        if path != lock.path and not is_theirs:
            path.unlink(missing_ok=True)
