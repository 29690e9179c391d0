"""One process of an instance: started, watched, restarted when it dies, stopped."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from trace_platform.app.instance.home import Home
from trace_platform.app.supervise.process_record import (
    ProcessRecord,
    kill_session,
    start_ticks,
    write_record,
)
from trace_platform.app.supervise.read_logs import last_lines
from trace_platform.app.supervise.ready import clear_ready, is_ready, mark_ready
from trace_platform.domain.errors import SetupError
from trace_platform.drivers.lite.private_file import append_private

log = structlog.get_logger(__name__)

# A process that never got ready and died this often will not get better by itself.
_HOPELESS_DEATHS = 3
_READY_POLL_S = 0.05
# Python's own switches that would make a service behave differently than in any other shell.
_UNWANTED_ENV = ("PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONHOME", "PYTHONDEBUG")


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """`serves` tells readiness by pid; without it the process marks itself ready.

    `sweep` ends what the process may leave running outside of its own session.
    """

    name: str
    command: Callable[[], list[str]]
    port: int | None = None
    ready_s: float = 60.0
    grace_s: float = 15.0
    stop_signal: signal.Signals = signal.SIGTERM
    sweep: Callable[[], None] | None = None
    serves: Callable[[int], bool] | None = None
    # Over what is inherited; variables that start with one of `hidden` are not inherited.
    env: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """`state`: starting, ready, died, stopping, stopped; or running a step of preparation."""

    name: str
    state: str
    detail: str = ""


Report = Callable[[Progress], None]


class Backoff:
    """0.2 s, doubling to 10 s, with jitter; from the start again after 30 s of good health."""

    def __init__(self, first_s: float = 0.2, most_s: float = 10.0, healthy_s: float = 30.0) -> None:
        self._first_s, self._most_s, self._healthy_s = first_s, most_s, healthy_s
        self._failures = 0

    def after(self, up_s: float) -> float:
        self._failures = 0 if up_s >= self._healthy_s else self._failures
        delay = min(self._first_s * 2.0**self._failures, self._most_s)
        self._failures = min(self._failures + 1, 16)
        return delay * random.uniform(0.75, 1.0)  # noqa: S311 - spreads restarts, guards nothing


class Keeper:
    """Keeps one process running, in a thread that mostly waits for it to end."""

    def __init__(self, spec: ProcessSpec, home: Home, report: Report) -> None:
        self.spec = spec
        self._home = home
        self._report = report
        self._backoff = Backoff()
        self._restarts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: str | None = None
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keep-{spec.name}", daemon=True)

    def start(self) -> None:
        self._report(Progress(self.spec.name, "starting"))
        self._thread.start()

    def wait_ready(self) -> None:
        """Return once it was ready for the first time; SetupError when that will not happen."""
        in_time = self._settled.wait(self.spec.ready_s)
        if in_time and self._failure is None:
            return
        why = self._failure or f"was not ready within {self.spec.ready_s:.0f} s"
        why += self._last_words()
        raise SetupError(f"{self.spec.name} {why}", hint=f"look at `trace logs {self.spec.name}`")

    def _last_words(self) -> str:
        """What its log says last of what went wrong, if it says anything."""
        log_file = self._home.logs / f"{self.spec.name}.jsonl"
        lines = last_lines({log_file: self.spec.name}, 50) if log_file.exists() else []
        wrong = [line for line in lines if line.level in ("error", "critical")]
        if not wrong:
            return ""
        said = str(wrong[-1].fields.get("message") or wrong[-1].event).strip()
        return f": {said.splitlines()[-1]}"

    def stop(self) -> None:
        """Ask, wait, insist. Nothing of the process is left afterwards."""
        self._stopping.set()
        with self._starting:
            process = self._process
        if not self._thread.is_alive() and process is None:
            return
        self._report(Progress(self.spec.name, "stopping"))
        if process is not None:
            process.send_signal(self.spec.stop_signal)
            self._join(self.spec.grace_s)
            process.kill()
        self._join(None)
        self._report(Progress(self.spec.name, "stopped"))

    def _join(self, timeout_s: float | None) -> None:
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _keep(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                why = self._run_once()
            except Exception as error:
                # For example a full disk. Keeping goes on whatever it was.
                log.exception("keeping_failed", name=self.spec.name)
                why = f"could not be kept running: {error}"
            if self._stopping.is_set():
                return
            delay_s = self._backoff.after(time.monotonic() - began)
            self._restarts += 1
            log.warning("process_died", name=self.spec.name, why=why, restart_in_s=delay_s)
            self._report(Progress(self.spec.name, "died", why))
            if self._restarts >= _HOPELESS_DEATHS and not self._settled.is_set():
                self._failure = f"{why}, {self._restarts} times in a row"
                self._settled.set()
            self._stopping.wait(delay_s)

    def _run_once(self) -> str:
        """Start it and wait for its end; says how it ended."""
        try:
            process = self._spawn()
            return self._follow(process) if process else "was told to stop"
        finally:
            self._sweep()

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        clear_ready(self._home, self.spec.name)
        log_file = self._home.logs / f"{self.spec.name}.jsonl"
        command = self.spec.command()
        with self._starting, append_private(log_file) as written:
            if self._stopping.is_set():
                return None
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                env=self._env(),
                cwd=self._home.root,
                start_new_session=True,
            )
        self._record(self._process.pid, command)
        return self._process

    def _follow(self, process: subprocess.Popen[bytes]) -> str:
        if not self._watch_start(process):
            return f"was not ready within {self.spec.ready_s:.0f} s"
        return _how_ended(process.wait())

    def _sweep(self) -> None:
        """Whatever happened: nothing of this turn lives on, such as the JVM of a killed worker."""
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait()
        kill_session(self._home, process.pid)
        if self.spec.sweep:
            self.spec.sweep()
        clear_ready(self._home, self.spec.name)

    def _record(self, pid: int, command: list[str]) -> None:
        record = ProcessRecord(
            name=self.spec.name,
            pid=pid,
            start_ticks=start_ticks(pid) or 0,
            pgid=pid,
            command=command,
            stop_signal=int(self.spec.stop_signal),
            started_at=time.time(),
            restarts=self._restarts,
        )
        write_record(self._home, record)
        log.info("process_started", name=self.spec.name, pid=pid, restarts=self._restarts)

    def _watch_start(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until it is ready or has ended. False when it is neither for too long."""
        deadline = time.monotonic() + self.spec.ready_s
        while time.monotonic() < deadline:
            if self._serves(process.pid):
                log.info("process_ready", name=self.spec.name, pid=process.pid)
                self._report(Progress(self.spec.name, "ready"))
                self._settled.set()
                return True
            try:
                process.wait(_READY_POLL_S)
                return True
            except subprocess.TimeoutExpired:
                pass
        return False

    def _serves(self, pid: int) -> bool:
        if self.spec.serves is None:
            return is_ready(self._home, self.spec.name, pid)
        if self.spec.serves(pid):
            mark_ready(self._home, self.spec.name, pid)
            return True
        return False

    def _env(self) -> dict[str, str]:
        hidden = (*_UNWANTED_ENV, *self.spec.hidden)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        # TRACE_HOME is also the mark by which leftovers are recognised.
        ours = {"TRACE_HOME": str(self._home.root), "PYTHONUNBUFFERED": "1"}
        return {**kept, **self.spec.env, **ours}


def answers(port: int) -> Callable[[int], bool]:
    """For `serves`: ready as soon as something accepts connections there."""

    def connects(_: int) -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            return False
        return True

    return connects


def _how_ended(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
