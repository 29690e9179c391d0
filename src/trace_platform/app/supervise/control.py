"""Start and stop an instance from another process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from trace_platform.app.instance.home import Home
from trace_platform.app.supervise.process import Progress, Report
from trace_platform.app.supervise.process_record import end_leftovers, read_records
from trace_platform.app.supervise.ready import is_ready
from trace_platform.app.supervise.status import instance_status
from trace_platform.app.supervise.supervisor import HomeLock, empty_run, supervisor_pid
from trace_platform.domain.errors import SetupError, TraceError, subclasses
from trace_platform.drivers.lite.private_file import append_private

_POLL_S = 0.05


def start_detached(home: Home, arguments: Sequence[str], report: Report) -> int:
    """Run `trace up` in the background. Returns the supervisor's pid once all is ready."""
    left_over = {record.pid for record in read_records(home) if record.alive()}
    log_file = home.logs / "supervisor.jsonl"
    command = [sys.executable, "-m", "trace_platform.cli", "up", "--home", str(home.root)]
    with append_private(log_file) as log:
        process = subprocess.Popen(
            [*command, "--in-background", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _await_ready(home, process, left_over, report)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    return process.pid


def _await_ready(
    home: Home, process: subprocess.Popen[bytes], left_over: set[int], report: Report
) -> None:
    told: dict[str, str] = {}
    while not is_ready(home, "supervisor", process.pid):
        _report_news(home, told, left_over, report)
        try:
            process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            continue
        raise _failure(home)
    _report_news(home, told, left_over, report)


def stop_instance(home: Home, timeout_s: float = 90.0) -> bool:
    """Stop everything of that home, whatever state it is in. False when nothing ran."""
    pid = supervisor_pid(home)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        if not _wait(lambda: supervisor_pid(home) != pid, timeout_s):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _wait(lambda: supervisor_pid(home) != pid, 5.0)
    if not (home.root / "run").exists():
        return bool(pid)
    return bool(_end_leftovers(home)) or bool(pid)


def write_failure(home: Home, error: TraceError) -> None:
    """For `start_detached`, which cannot see our exception."""
    content = {"code": error.code, "message": error.message, "hint": error.hint}
    (home.run / "supervisor.failed").write_text(json.dumps(content))


def _failure(home: Home) -> TraceError:
    path = home.run / "supervisor.failed"
    try:
        found = json.loads(path.read_text())
        path.unlink()
    except (OSError, ValueError):
        return SetupError("the supervisor ended unexpectedly", hint="see `trace logs supervisor`")
    kind = subclasses().get(found["code"], SetupError)
    return kind(found["message"], hint=found["hint"])


def _report_news(home: Home, told: dict[str, str], left_over: set[int], report: Report) -> None:
    for process in instance_status(home).processes:
        state = "left over" if process.pid in left_over else process.state
        if told.get(process.name) != state:
            told[process.name] = state
            report(Progress(process.name, state))


def _end_leftovers(home: Home) -> list[str]:
    lock = HomeLock.take(home)
    try:
        ended = end_leftovers(home)
        empty_run(home, lock)
        return ended
    finally:
        lock.release()


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
